"""What a person sees of a run while it goes on and when it ends."""
