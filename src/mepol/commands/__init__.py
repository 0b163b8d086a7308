"""The command line: one file per command, each with `command(arguments)`."""
