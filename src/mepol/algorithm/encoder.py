"""What the entropy of pictures is taken of: the output of a frozen random network.

    convolution 2 x 2, C -> 16, ReLU, maximum over 2 x 2, convolution 16 -> 32, ReLU, convolution 32 -> 64, ReLU

as alpha-MEPOL has it (Mutti et al. 2022). Of its pictures, 7 x 7, exactly 64 numbers are left, the embedding. Of larger
ones 64 maps are left, which a random matrix projects to 64 numbers: unlike a mean over each map, it keeps where in the
picture something is. Random projections keep distances up to a factor near 1 (Johnson and Lindenstrauss).

The seed fixes the weights. Equal pictures would coincide, so noise of deviation DITHER is added, fixed by the seed and
by a picture's place in the batch.
"""

from __future__ import annotations

import hashlib
import math
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import conv2d, linear, max_pool2d

from mepol.algorithm.pictures import Picture, upright
from mepol.neighbours import torch_threads

CHANNELS = (16, 32, 64)
EMBEDDING = 64  # D
DITHER = 1e-4  # deviation of the noise; a change of one pixel from black to white moves the embedding by about 1
ROWS = 500  # pictures per pass: their maps stay in cache


class RandomEncoder:
    """(N, S) rows of pictures, as bytes or real numbers of 0 to 255 -> (N, D) embeddings, float64.

    Equal seeds and pictures make equal encoders; nothing else needs to be stored.
    """

    def __init__(self, picture: Picture, seed: int) -> None:
        self.picture, self.seed = picture, seed

    @cached_property
    def weights(self) -> tuple[tuple[Tensor, Tensor], ...]:
        """Weights and biases of the convolutions, float32: spread so that a ReLU keeps the size of what it is given."""
        rng = np.random.default_rng(self.seed)
        found, before = [], self.picture.channels
        for out, kernel in zip(CHANNELS, self._kernels, strict=True):
            bound = math.sqrt(6.0 / (before * math.prod(kernel)))
            weight = rng.uniform(-bound, bound, (out, before, *kernel))
            bias = rng.uniform(-bound, bound, out) / math.sqrt(6.0)
            found.append((torch.from_numpy(weight).float(), torch.from_numpy(bias).float()))
            before = out
        return tuple(found)

    @cached_property
    def projection(self) -> Tensor | None:
        """(D, 64 h w) standard normal over sqrt(D); None where the maps are the embedding."""
        h, w = self._sides[-1]
        if h * w == 1:
            return None
        rng = np.random.default_rng([self.seed, 1])
        drawn = rng.standard_normal((EMBEDDING, CHANNELS[-1] * h * w)) / math.sqrt(EMBEDDING)
        return torch.from_numpy(drawn).float()

    @property
    def digest(self) -> str:
        """Of the weights: what a stored run compares those of today with."""
        content = hashlib.sha256()
        for tensor in (*(t for pair in self.weights for t in pair), self.projection):
            content.update(b"" if tensor is None else tensor.numpy().tobytes())
        return content.hexdigest()[:16]

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """(N, S) rows -> (N, D), with the noise that holds equal pictures apart."""
        noise = np.random.default_rng([self.seed, 2]).standard_normal((len(rows), EMBEDDING))
        return self.embed(rows) + DITHER * noise

    @torch.no_grad()
    def embed(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """(N, S) rows -> (N, D), without noise; on one thread, so that no digit depends on the cores."""
        with torch_threads(1):
            parts = [self._maps(rows[i : i + ROWS]) for i in range(0, len(rows), ROWS)]
        return torch.cat(parts).double().numpy() if parts else np.zeros((0, EMBEDDING))

    def _maps(self, rows: NDArray[Any]) -> Tensor:
        x = upright(torch.from_numpy(np.ascontiguousarray(rows)).float() / 255.0, self.picture.shape)
        for number, (weight, bias) in enumerate(self.weights):
            x = conv2d(x, weight, bias).relu_()
            if number == 0:
                x = max_pool2d(x, self._pool)
        flat = x.flatten(1)
        return flat if self.projection is None else linear(flat, self.projection)

    # --- Sizes: a side that is too short for a kernel or for the maximum goes without ---------------------------------

    @property
    def _pool(self) -> tuple[int, int]:
        """Sides of the maximum: 2 where two convolutions can follow it."""
        first = self._first
        return 2 if first[0] >= 6 else 1, 2 if first[1] >= 6 else 1

    @property
    def _first(self) -> tuple[int, int]:
        h, w = self.picture.shape[:2]
        return max(h - 1, 1), max(w - 1, 1)

    @property
    def _sides(self) -> list[tuple[int, int]]:
        """(h, w) that each convolution is given, and at last what is left."""
        (h, w), found = (a // b for a, b in zip(self._first, self._pool, strict=True)), [self.picture.shape[:2]]
        for _ in CHANNELS[1:]:
            found.append((h, w))
            h, w = max(h - 1, 1), max(w - 1, 1)
        return [*found, (h, w)]

    @property
    def _kernels(self) -> list[tuple[int, int]]:
        return [(min(2, h), min(2, w)) for h, w in self._sides[:-1]]
