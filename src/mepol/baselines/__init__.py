"""Rivals: rewards that a learner gives itself. Each has `reward(transitions)` and `update(transitions)`."""
