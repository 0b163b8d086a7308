"""Policies that are shipped, one for each exploration preset, and the card that says what each is worth."""
