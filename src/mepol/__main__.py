"""`python -m mepol`: the command line."""

from __future__ import annotations

import sys

from mepol.cli import main

if __name__ == "__main__":
    sys.exit(main())
