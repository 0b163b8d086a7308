"""Rivals of MEPOL: explorers measured by the same protocol, and rewards that a learner gives itself."""
