"""One memory case in this process: `python -m mepol.bench CASE` prints its particles and peak as JSON."""

from __future__ import annotations

import json
import sys

from mepol.bench.memory import CASES, peak_memory, run_case

particles = run_case(CASES[sys.argv[1]])
sys.stdout.write(json.dumps({"particles": particles, "bytes": peak_memory()}))
