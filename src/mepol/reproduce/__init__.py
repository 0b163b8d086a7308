"""Every figure and table of the paper by its name: run what is missing, draw what is there."""
