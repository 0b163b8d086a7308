"""Stable-Baselines3 and sb3-contrib, which are optional, and our environments and policies towards them."""
