"""Rewards that a learner gives itself: SMM, ICM, Pseudocount."""
