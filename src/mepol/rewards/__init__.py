"""Rewards that an agent gives itself, for both phases: torch modules that know no learner and no environment."""
