"""Commands of the terminal, one a module; `mepol.cli` registers them."""
