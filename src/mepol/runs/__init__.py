"""The run directory: what a run leaves behind, and how it is read again."""
