"""Pictures as observations: how large the networks read them, as rows of bytes, and the convolutions of a policy.

A picture (H, W, C) of bytes is averaged over squares of `factor` pixels until no side is longer than MAX_SIDE, and laid
out as one row (S,) of bytes, pixel after pixel. A batch keeps these rows: M (T + 1) S bytes. They become real numbers a
block at a time, where a network reads them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mepol.errors import EnvironmentFault

Bytes = NDArray[np.uint8]
MAX_SIDE = 32  # pixels of a side that networks read
MAX_SOURCE = 4096  # pixels of a side that an environment may give
MAX_CHANNELS = 16
CHANNELS = (16, 32)  # of a policy's convolutions
KERNEL = 3
SMALL = 5  # from this side on a convolution halves it


@dataclass(frozen=True)
class Picture:
    """The pictures of one environment, (height, width, channels) of bytes."""

    height: int
    width: int
    channels: int

    def __post_init__(self) -> None:
        if not (min(self.source) >= 1 and max(self.source[:2]) <= MAX_SOURCE and self.channels <= MAX_CHANNELS):
            raise EnvironmentFault(
                f"a picture of shape {self.source} is not possible: it must be (height, width, channels) of sides "
                f"up to {MAX_SOURCE} with at most {MAX_CHANNELS} channels, the last axis"
            )

    @property
    def source(self) -> tuple[int, int, int]:
        """(H, W, C) as the environment gives it."""
        return self.height, self.width, self.channels

    @property
    def factor(self) -> int:
        """Side of the squares that are averaged, in pixels; 1 leaves a picture as it is."""
        return math.ceil(max(self.height, self.width) / MAX_SIDE)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(h, w, C) as networks read it."""
        return math.ceil(self.height / self.factor), math.ceil(self.width / self.factor), self.channels

    @property
    def size(self) -> int:
        """S, bytes of a row."""
        return math.prod(self.shape)

    def rows(self, given: Any) -> NDArray[Any]:
        """(..., S) rows of pictures (..., H, W, C), or (..., H, W) of one channel; rows are left as they are."""
        array = np.asarray(given)
        if array.shape[-3:] != self.source:
            if array.shape[-1:] == (self.size,):
                return array
            if self.channels == 1 and array.shape[-2:] == self.source[:2]:
                array = array[..., None]
        if array.shape[-3:] != self.source:
            raise EnvironmentFault(
                f"pictures {self.source} are read here, or rows of {self.size} bytes, not an array {array.shape}"
            )
        if array.dtype != np.uint8:
            raise EnvironmentFault(f"pictures are read as bytes (uint8), not as {array.dtype}")
        return self._shrunk(array).reshape(*array.shape[:-3], self.size)

    def _shrunk(self, pictures: Bytes) -> Bytes:
        """(..., h, w, C) means over squares; a last row or column that is short counts its edge as often as needed."""
        f, (h, w, c) = self.factor, self.shape
        if f == 1:
            return pictures
        flat = pictures.reshape(-1, *self.source)
        padded = np.pad(flat, ((0, 0), (0, h * f - self.height), (0, w * f - self.width), (0, 0)), "edge")
        total = padded.reshape(-1, h, f, w, f, c).sum(axis=(2, 4), dtype=np.uint32)
        nearest: Bytes = ((2 * total + f * f) // (2 * f * f)).astype(np.uint8)
        return nearest


def upright(rows: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """(N, S) rows -> (N, C, h, w), the order that convolutions want."""
    return rows.reshape(-1, *shape).permute(0, 3, 1, 2)


def draw_layer(layer: nn.Linear | nn.Conv2d, rng: np.random.Generator) -> None:
    """Xavier-uniform weights, biases uniform in +-1/sqrt(fan-in)."""
    taps = layer.weight[0, 0].numel()
    fan_out, fan_in = layer.weight.shape[0] * taps, layer.weight.shape[1] * taps
    assert layer.bias is not None
    for tensor, bound in ((layer.weight, math.sqrt(6.0 / (fan_in + fan_out))), (layer.bias, 1.0 / math.sqrt(fan_in))):
        tensor.copy_(torch.from_numpy(rng.uniform(-bound, bound, tuple(tensor.shape))))


class Eye(nn.Module):
    """(..., S) rows of a picture, in [0, 1] -> (..., features): two convolutions of 3 x 3, each halving the sides."""

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self.picture = picture
        h, w, channels = picture.shape
        layers: list[nn.Module] = []
        for out in CHANNELS:
            kernel = min(KERNEL, h), min(KERNEL, w)
            stride = 2 if h >= SMALL else 1, 2 if w >= SMALL else 1
            layers.append(nn.Conv2d(channels, out, kernel, stride))
            h, w = ((side - k) // s + 1 for side, k, s in zip((h, w), kernel, stride, strict=True))
            channels = out
        self.layers = nn.ModuleList(layers)
        self.features = channels * h * w

    def forward(self, rows: Tensor) -> Tensor:
        """(..., S) -> (..., features)."""
        x = upright(rows, self.picture.shape)
        for layer in self.layers:
            x = layer(x).relu_()
        return x.reshape(*rows.shape[:-1], self.features)
