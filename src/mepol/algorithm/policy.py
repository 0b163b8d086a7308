"""What a policy must be able to do, and the paper's: a diagonal Gaussian whose mean is a ReLU network and whose spread
is a free vector.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear

from mepol.neighbours import torch_threads

Responder = Callable[[NDArray[np.floating], NDArray[np.float32] | None], NDArray[np.float32]]
ROWS = 2000  # states a pass: the activations of so many stay in cache, those of a batch do not (docs/performance.md)


@contextmanager
def one_thread() -> Iterator[None]:
    """Products as small as a policy's run faster on one thread, and round alike whatever the number of cores.

    The number belongs to the process. Threads that act at once are therefore to be started within this context.
    """
    with torch_threads(1):
        yield


class Stateful(Protocol):
    """Something learnt that can be written down and read back; any nn.Module."""

    def state_dict(self) -> dict[str, Any]:
        """Its tensors by name."""
        ...

    def load_state_dict(self, state_dict: Mapping[str, Any], /) -> object:
        """Take over the tensors of a `state_dict`."""
        ...


class Policy(Stateful, Protocol):
    """What sampling and learning ask of a policy; an nn.Module with `log_prob` and `act` is enough."""

    def log_prob(self, states: Tensor, actions: Tensor, /) -> Tensor:
        """(N, S), (N, A) float32 -> (N,) ln pi(a | s), in nats, differentiable in the parameters."""
        ...

    def act(
        self, obs: NDArray[np.floating], rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[np.float32]:
        """(M, S) observations -> (M, A) actions, drawn with `rng` alone."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """theta: what a climb moves."""
        ...


class GaussianPolicy(nn.Module):
    """a ~ N(mean(s), diag(exp(log_std))^2); actions are not squashed nor clipped here: the environment clips.

    The network sees (s - shift) / scale; the paper feeds raw states, which is shift 0 and scale 1. A new one has
    torch's weights and leaves torch's generator as it was; `initialise` draws those of the paper.

    >>> import numpy as np, mepol
    >>> policy = mepol.GaussianPolicy(2, 3, hidden=(64, 64))
    >>> policy.initialise(np.random.default_rng(0), log_std=-0.5)
    >>> policy.act(np.zeros((5, 2)), np.random.default_rng(1)).shape
    (5, 3)
    """

    shift: Tensor
    scale: Tensor

    @torch.random.fork_rng(devices=[])
    def __init__(self, state_dim: int, action_dim: int, hidden: tuple[int, ...] = (300, 300)) -> None:
        super().__init__()
        widths = (state_dim, *hidden, action_dim)
        self.widths = widths
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in itertools.pairwise(widths))
        self.log_std = nn.Parameter(torch.zeros(action_dim))
        self.register_buffer("shift", torch.zeros(state_dim))
        self.register_buffer("scale", torch.ones(state_dim))

    def mean(self, states: Tensor) -> Tensor:
        """(..., S) states -> (..., A) mean actions."""
        *hidden, last = self.layers  # a slice would build a module, which costs as much as a layer of ten rows
        x = (states - self.shift) / self.scale
        for layer in hidden:
            x = layer(x).relu_()
        out: Tensor = last(x)
        return out

    def log_prob(self, states: Tensor, actions: Tensor) -> Tensor:
        """(..., S), (..., A) -> (...) ln pi(a | s), in nats; many rows go through the network a block at a time."""
        if states.ndim == 2 and len(states) > ROWS:
            blocks = zip(torch.split(states, ROWS), torch.split(actions, ROWS), strict=True)
            return torch.cat([self.log_prob(s, a) for s, a in blocks])
        z = (actions - self.mean(states)) * torch.exp(-self.log_std)
        return -0.5 * z.square().sum(-1) - self.log_std.sum() - 0.5 * math.log(2 * math.pi) * self.log_std.numel()

    def act(
        self, obs: NDArray[np.floating], rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[np.float32]:
        """(S,) or (M, S) observations -> actions (A,) or (M, A) float32, drawn with `rng`."""
        noise = None if deterministic else self.noise(np.shape(obs)[:-1], rng)
        with one_thread():
            return self.responder()(obs, noise)

    def noise(self, rows: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
        """(*rows, A) draws from N(0, 1): what `act` draws for as many observations."""
        return rng.standard_normal((*rows, self.widths[-1]), dtype=np.float32)

    def responder(self) -> Responder:
        """The policy of this moment as a function: (..., S) observations, (..., A) noise -> mean + std * noise.

        Without noise it gives the mean. Looking the weights up takes as long as a product with ten rows, so a loop
        makes one responder and keeps it; it is to be called within `one_thread`.
        """
        shift, scale, std = self.shift.numpy(), self.scale.numpy(), np.exp(self.log_std.detach().numpy())
        *hidden, last = [tuple(tensor.detach() for tensor in layer.parameters()) for layer in self.layers]

        def respond(obs: NDArray[np.floating], noise: NDArray[np.float32] | None) -> NDArray[np.float32]:
            x = torch.from_numpy((np.asarray(obs, dtype=np.float32) - shift) / scale)
            for weight, bias in hidden:
                x = linear(x, weight, bias).relu_()
            mean: NDArray[np.float32] = linear(x, *last).numpy()
            return mean if noise is None else mean + noise * std

        return respond

    @torch.no_grad()
    def initialise(self, rng: np.random.Generator, *, log_std: float) -> None:
        """Xavier-uniform weights, biases uniform in +-1/sqrt(fan-in), a constant log-std."""
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            fan_out, fan_in = layer.weight.shape
            for tensor, bound in (
                (layer.weight, math.sqrt(6.0 / (fan_in + fan_out))),
                (layer.bias, 1.0 / math.sqrt(fan_in)),
            ):
                tensor.copy_(torch.from_numpy(rng.uniform(-bound, bound, tuple(tensor.shape))))
        self.log_std.fill_(log_std)

    @torch.no_grad()
    def mirror(self) -> None:
        """Pair the units of the last hidden layer, alike inside and opposite outside: the mean is exactly zero.

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

    def centre(self, space: Box, rng: np.random.Generator, *, steps: int = 100, samples: int = 5000) -> None:
        """Regress the mean to zero over the observation space: the paper's common start across seeds.

        Bounded coordinates are sampled uniformly, unbounded ones from N(0, 1).
        100 Adam steps at 2.5e-4 on 5000 fresh samples each, as in the authors' release.
        """
        optimiser = torch.optim.Adam(self.layers.parameters(), lr=2.5e-4)
        low, high = np.asarray(space.low, dtype=np.float64), np.asarray(space.high, dtype=np.float64)
        bounded = np.isfinite(low) & np.isfinite(high)
        low, width = np.where(bounded, low, 0.0), np.where(bounded, high - low, 1.0)
        for _ in range(steps):
            shape = (samples, *space.shape)
            draw = np.where(bounded, rng.uniform(size=shape), rng.standard_normal(shape))
            states = torch.from_numpy((low + width * draw).astype(np.float32))
            loss = self.mean(states).square().mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
