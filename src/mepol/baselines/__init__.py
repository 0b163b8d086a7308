"""Rivals of MEPOL, to be measured by the same protocol."""
