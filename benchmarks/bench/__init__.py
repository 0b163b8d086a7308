"""What exploration costs: an epoch beside its floors, how it grows with its sizes, and the memory it needs."""

from __future__ import annotations

from bench.epoch import DOMAINS, PARTS, Timing, bench_domain
from bench.finetune import ENTROPY_CASES, bench_entropy
from bench.growth import SWEEPS, Growth, Point, bench_growth
from bench.memory import CASES, Peak, bench_memory, peak_memory
from bench.worlds import bench_worlds

__all__ = [
    "CASES",
    "DOMAINS",
    "ENTROPY_CASES",
    "PARTS",
    "SWEEPS",
    "Growth",
    "Peak",
    "Point",
    "Timing",
    "bench_domain",
    "bench_entropy",
    "bench_growth",
    "bench_memory",
    "bench_worlds",
    "peak_memory",
]
