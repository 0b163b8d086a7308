"""Rivals of today: PPO paid by an intrinsic reward alone (RND, RE3, APT)."""
