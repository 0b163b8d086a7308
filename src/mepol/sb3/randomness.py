"""A guard of the global generators, which Stable-Baselines3 draws from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def drawing_from(seed: np.random.SeedSequence) -> Iterator[None]:
    """Within the block the global generators of torch and NumPy follow `seed`; afterwards they are as before."""
    words = seed.generate_state(2)
    before = np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(words[0]))
        np.random.seed(int(words[1]))  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(before)  # noqa: NPY002
