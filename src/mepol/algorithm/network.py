"""The ReLU network that every policy of ours is: of scaled states, with the paper's start and a common one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear

from mepol.algorithm.pictures import Eye, Picture, draw_layer
from mepol.algorithm.symmetry import Symmetry


class ReluNetwork(nn.Module):
    """(..., S) states -> (..., outputs). It sees (s - shift) / scale; the paper feeds raw states, shift 0 and scale 1.

    A new one has torch's weights and leaves torch's generator as it was; `draw_weights` draws those of the paper.
    `widths` is (S, hidden layers, outputs).
    picture: what states are rows of, where they are pictures: then convolutions, the `eye`, come before the layers, and
    a new network brings bytes to [0, 1].
    """

    shift: Tensor
    scale: Tensor
    symmetries: tuple[Symmetry, ...] = ()
    """What its weights are tied by."""

    @torch.random.fork_rng(devices=[])
    def __init__(self, state_dim: int, outputs: int, hidden: tuple[int, ...], picture: Picture | None = None) -> None:
        super().__init__()
        self.widths, self.picture = (state_dim, *hidden, outputs), picture
        self.eye = None if picture is None else Eye(picture)
        read = state_dim if self.eye is None else self.eye.features
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in itertools.pairwise((read, *hidden, outputs)))
        self.register_buffer("shift", torch.zeros(state_dim))
        self.register_buffer("scale", torch.full((state_dim,), 1.0 if picture is None else 255.0))

    @property
    def _weighted(self) -> list[nn.Module]:
        """Every layer, in the order in which states pass them."""
        return [*(() if self.eye is None else self.eye.layers), *self.layers]

    def read(self, obs: NDArray[Any]) -> NDArray[Any]:
        """(..., S) states as they are; pictures (..., H, W, C) as the rows (..., S) that the network reads."""
        return obs if self.picture is None else self.picture.rows(obs)

    def output(self, states: Tensor) -> Tensor:
        """(..., S) states -> (..., outputs)."""
        *hidden, last = self.layers  # a slice would build a module, which costs as much as a layer of ten rows
        x = (states - self.shift) / self.scale
        if self.eye is not None:
            x = self.eye(x)
        for layer in hidden:
            x = layer(x).relu_()
        out: Tensor = last(x)
        return out

    def snapshot(self) -> Callable[[NDArray[np.floating]], NDArray[np.float32]]:
        """The network of this moment as a function of arrays, (..., S) -> (..., outputs).

        Looking the weights up takes as long as a product with ten rows, so a loop makes one and keeps it.
        """
        shift, scale, eye = self.shift.numpy(), self.scale.numpy(), self.eye
        *hidden, last = [tuple(tensor.detach() for tensor in layer.parameters()) for layer in self.layers]

        def respond(obs: NDArray[np.floating]) -> NDArray[np.float32]:
            x = torch.from_numpy((np.asarray(obs, dtype=np.float32) - shift) / scale)
            if eye is not None:
                with torch.no_grad():
                    x = eye(x)
            for weight, bias in hidden:
                x = linear(x, weight, bias).relu_()
            out: NDArray[np.float32] = linear(x, *last).numpy()
            return out

        return respond

    @torch.no_grad()
    def draw_weights(self, rng: np.random.Generator) -> None:
        """Xavier-uniform weights, biases uniform in +-1/sqrt(fan-in)."""
        for layer in self._weighted:
            assert isinstance(layer, nn.Linear | nn.Conv2d)
            draw_layer(layer, rng)

    @torch.no_grad()
    def mirror(self) -> None:
        """Pair the units of the last hidden layer, alike inside and opposite outside: the output is exactly zero.

        Unlike a zero output layer this lets gradients through to every layer from the first step
        (Zhang et al. 2020 call it antisymmetrical initialisation).
        """
        inner, outer = self.layers[-2], self.layers[-1]
        assert isinstance(inner, nn.Linear)
        assert isinstance(outer, nn.Linear)
        half = inner.out_features // 2
        inner.weight[half:], inner.bias[half:] = inner.weight[:half], inner.bias[:half]
        outer.weight[:, half:] = -outer.weight[:, :half]
        outer.bias.zero_()

    @torch.no_grad()
    def level(self) -> None:
        """Make the output zero whatever the state, by an output layer of zeros."""
        for parameter in self.layers[-1].parameters():
            parameter.zero_()

    def centre(self, space: Box, rng: np.random.Generator, *, steps: int = 100, samples: int = 5000) -> None:
        """Regress the output to zero over the observation space: the paper's common start across seeds.

        Bounded coordinates are sampled uniformly, unbounded ones from N(0, 1).
        100 Adam steps at 2.5e-4 on 5000 fresh samples each, as in the authors' release.
        """
        optimiser = torch.optim.Adam([p for layer in self._weighted for p in layer.parameters()], lr=2.5e-4)
        low, high = np.asarray(space.low, dtype=np.float64), np.asarray(space.high, dtype=np.float64)
        bounded = np.isfinite(low) & np.isfinite(high)
        low, width = np.where(bounded, low, 0.0), np.where(bounded, high - low, 1.0)
        for _ in range(steps):
            shape = (samples, *space.shape)
            draw = np.where(bounded, rng.uniform(size=shape), rng.standard_normal(shape))
            states = torch.from_numpy((low + width * draw).astype(np.float32))
            loss = self.output(states).square().mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
