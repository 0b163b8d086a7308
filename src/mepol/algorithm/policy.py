"""What a policy must be able to do, and the paper's: a diagonal Gaussian whose mean is a ReLU network and whose spread
is a free vector.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mepol.algorithm.network import ReluNetwork
from mepol.algorithm.pictures import Picture
from mepol.algorithm.symmetry import Symmetry, even_inputs, is_tied, keep_alike, tie
from mepol.errors import PolicyFileError
from mepol.neighbours import torch_threads

Responder = Callable[[NDArray[np.floating], NDArray[np.float32] | None], NDArray[np.float32]]
ROWS = 2000  # states per pass: the activations of so many stay in cache (docs/results/performance.md)
KEPT = 10_000  # pictures whose activations are kept for the way back, at most 35 kB each; of more they are made again


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


@runtime_checkable
class Remembering(Protocol):
    """A policy that looks at the step before."""

    def log_prob_along(self, states: Tensor, actions: Tensor, first: Tensor, rows: slice = slice(None)) -> Tensor:
        """ln pi of the steps in `rows` of (N, S) states and (N, A) actions; first (N,): which begin a trajectory."""
        ...


def in_blocks(function: Callable[[Tensor, Tensor], Tensor], states: Tensor, actions: Tensor) -> Tensor:
    """`function` of (..., S) states and (..., A) actions, which of more than ROWS rows goes over a block at a time."""
    if states.ndim != 2 or len(states) <= ROWS:
        return function(states, actions)
    blocks = zip(torch.split(states, ROWS), torch.split(actions, ROWS), strict=True)
    if states.dtype == torch.uint8 and len(states) > KEPT and torch.is_grad_enabled():
        return torch.cat([checkpoint(function, s, a, use_reentrant=False) for s, a in blocks])
    return torch.cat([function(s, a) for s, a in blocks])


def next_noise(
    shape: tuple[int, ...], rng: np.random.Generator, before: NDArray[np.float32] | None, correlation: float
) -> NDArray[np.float32]:
    """Standard normal noise of `shape` that keeps `correlation` of the noise `before` it, where there was any."""
    fresh = rng.standard_normal(shape, dtype=np.float32)
    if before is None or not correlation:
        return fresh
    keep = math.sqrt(1 - correlation**2)
    carried: NDArray[np.float32] = np.float32(correlation) * before + np.float32(keep) * fresh
    return carried


class NetworkPolicy(ReluNetwork, ABC):
    """A policy that makes an action of the network's output and of noise that is drawn before it."""

    correlation: float = 0.0
    """How much of one step's noise is left in the next."""
    rng: np.random.Generator | None = None
    """What `predict` draws its noise with where it is given nothing else; from seed 0 if it is left None."""

    @abstractmethod
    def noise(
        self, rows: tuple[int, ...], rng: np.random.Generator, before: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """(*rows, A) noise of one step; before: that of the step before, where there was one."""

    @abstractmethod
    def responder(self, of: NDArray[np.int64] | None = None) -> Responder:
        """The policy of this moment as a function of observations and noise, or None for an action without any.

        of: (M,) numbers of the trajectories that the rows are of, for a policy to which it matters.
        """

    def act(
        self, obs: NDArray[np.floating], rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[np.float32]:
        """(S,) or (M, S) observations -> actions (A,) or (M, A) float32, drawn with `rng`.

        One step knows of no other: noise that goes on along trajectories comes from `begin`, where there is any.
        A policy of pictures takes them as the environment gives them, (H, W, C) or (M, H, W, C), or as rows (M, S).
        """
        obs = self.read(obs)
        noise = None if deterministic else self.noise(np.shape(obs)[:-1], rng)
        with one_thread():
            return self.responder()(obs, noise)

    def predict(
        self,
        obs: NDArray[np.floating],
        state: tuple[NDArray[np.float32], ...] | None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
        *,
        rng: np.random.Generator | None = None,
    ) -> tuple[NDArray[np.float32], tuple[NDArray[np.float32], ...] | None]:
        """(S,) or (M, S) observations -> actions (A,) or (M, A) and the next state, as Stable-Baselines3 calls it.

        state: what the call before returned, the noise of that step, so that correlated noise goes on; None without
        correlation. episode_start (M,): where it is true, noise begins anew. rng: of the noise; by default `self.rng`.
        Actions are not clipped: no policy knows the bounds of an action space.
        """
        obs = self.read(obs)
        if np.shape(obs)[-1:] != self.widths[:1]:
            raise PolicyFileError(f"the policy reads {self.widths[0]} numbers, and was given {np.shape(obs)[-1:]}")
        if deterministic:
            return self.act(obs, np.random.default_rng(0), deterministic=True), state
        if rng is None:
            rng = self.rng = np.random.default_rng(0) if self.rng is None else self.rng
        rows = np.shape(obs)[:-1]
        noise = self.noise(rows, rng, state[0] if state else None)
        if state and episode_start is not None and np.any(episode_start):
            new = np.reshape(np.asarray(episode_start, dtype=bool), (*rows, 1))
            noise = np.where(new, self.noise(rows, rng), noise)
        with one_thread():
            return self.responder()(obs, noise), (noise,) if self.correlation else None


class GaussianPolicy(NetworkPolicy):
    """a ~ N(mean(s), diag(exp(log_std))^2); actions are not squashed nor clipped here: the environment clips.

    The network sees (s - shift) / scale; the paper feeds raw states, which is shift 0 and scale 1. A new one has
    torch's weights and leaves torch's generator as it was; `initialise` draws those of the paper.

    correlation (rho, in [0, 1)): how much of one step's noise is left in the next. Along a trajectory

        e_0 = xi_0,    e_t = rho e_{t-1} + sqrt(1 - rho^2) xi_t,    a_t = mean(s_t) + std e_t,    xi_t ~ N(0, 1),

    so that each action alone is distributed as without it. The likelihood stays exact, since e_{t-1} can be read off
    the step before: a_t given s_t, s_{t-1}, a_{t-1} is normal around mean(s_t) + rho (a_{t-1} - mean(s_{t-1})), with
    the deviation sqrt(1 - rho^2) std. The paper has rho = 0. White noise on stiff limits is cut off and cancels itself.

    >>> import numpy as np, mepol
    >>> policy = mepol.GaussianPolicy(2, 3, hidden=(64, 64))
    >>> policy.initialise(np.random.default_rng(0), log_std=-0.5)
    >>> policy.act(np.zeros((5, 2)), np.random.default_rng(1)).shape
    (5, 3)
    """

    def __init__(
        self,
        state_dim: int,
        action_dim: int,
        hidden: tuple[int, ...] = (300, 300),
        correlation: float = 0.0,
        picture: Picture | None = None,
    ) -> None:
        super().__init__(state_dim, action_dim, hidden, picture)
        self.correlation = correlation
        self.log_std = nn.Parameter(torch.zeros(action_dim))

    def tie(self, symmetries: tuple[Symmetry, ...]) -> None:
        """From here on do in the image of a state what the image of the action is; spreads are those of the images."""
        tie(self.layers, symmetries)
        keep_alike(self.log_std, symmetries)
        even_inputs(self.shift, self.scale, symmetries)
        self.symmetries = symmetries

    def has(self, symmetries: tuple[Symmetry, ...]) -> bool:
        """Whether it does so already, by its weights."""
        return is_tied(self.layers, symmetries)

    def mean(self, states: Tensor) -> Tensor:
        """(..., S) states -> (..., A) mean actions."""
        return self.output(states)

    def log_prob(self, states: Tensor, actions: Tensor) -> Tensor:
        """(..., S), (..., A) -> (...) ln pi(a | s), in nats; many rows go through the network a block at a time."""
        return in_blocks(lambda s, a: self._normal(self._noise_of(s, a)), states, actions)

    def log_prob_along(self, states: Tensor, actions: Tensor, first: Tensor, rows: slice = slice(None)) -> Tensor:
        """ln pi of the steps in `rows`, each given the step before it, in nats.

        states (N, S), actions (N, A): trajectory after trajectory; first (N,): which steps begin one.
        """
        if not self.correlation:
            return self.log_prob(states[rows], actions[rows])
        keep = math.sqrt(1 - self.correlation**2)
        if rows == slice(None):
            noise = in_blocks(self._noise_of, states, actions)
            before = torch.cat([noise[:1], noise[:-1]])
        else:
            at = torch.arange(len(states))[rows]
            noise, first = in_blocks(self._noise_of, states[at], actions[at]), first[at]
            before = in_blocks(self._noise_of, states[at - 1], actions[at - 1])  # of the very first it is not read
        fresh = torch.where(first[:, None], noise, (noise - self.correlation * before) / keep)
        return self._normal(fresh) - (~first).to(noise.dtype) * (math.log(keep) * self.log_std.numel())

    def _noise_of(self, states: Tensor, actions: Tensor) -> Tensor:
        """(..., A) the standard normal noise that makes the actions out of the mean."""
        return (actions - self.mean(states)) * torch.exp(-self.log_std)

    def _normal(self, z: Tensor) -> Tensor:
        """(..., A) noise -> (...) ln of the density of the actions that it makes."""
        return -0.5 * z.square().sum(-1) - self.log_std.sum() - 0.5 * math.log(2 * math.pi) * self.log_std.numel()

    def begin(self, m: int, rng: np.random.Generator) -> Any:
        """What acts in the next M trajectories: the policy itself, or with the noise of each carried along."""
        return Carrying(self, m) if self.correlation else self

    def noise(
        self, rows: tuple[int, ...], rng: np.random.Generator, before: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """(*rows, A) noise of one step, as `act` draws it; before: that of the step before, where there was one."""
        return next_noise((*rows, self.widths[-1]), rng, before, self.correlation)

    def responder(self, of: NDArray[np.int64] | None = None) -> Responder:
        """The policy of this moment as a function: (..., S) observations, (..., A) noise -> mean + std * noise.

        Without noise it gives the mean. It is a `snapshot`, and to be called within `one_thread`.
        """
        network, std = self.snapshot(), np.exp(self.log_std.detach().numpy())

        def respond(obs: NDArray[np.floating], noise: NDArray[np.float32] | None) -> NDArray[np.float32]:
            mean = network(obs)
            return mean if noise is None else mean + noise * std

        return respond

    @torch.no_grad()
    def initialise(self, rng: np.random.Generator, *, log_std: float) -> None:
        """Xavier-uniform weights, biases uniform in +-1/sqrt(fan-in), a constant log-std."""
        self.draw_weights(rng)
        self.log_std.fill_(log_std)


class Carrying:
    """A policy along M trajectories: the noise of each goes on from step to step, and its number is known."""

    def __init__(self, policy: NetworkPolicy, m: int) -> None:
        self.policy = policy
        self._noise: NDArray[np.float32] | None = None
        self._m = m

    def act(
        self, obs: NDArray[np.floating], rng: np.random.Generator, deterministic: bool = False
    ) -> NDArray[np.float32]:
        """(M, S) observations of the next step -> (M, A) actions."""
        self._noise = None if deterministic else self.policy.noise((self._m,), rng, self._noise)
        with one_thread():
            return self.policy.responder(np.arange(self._m))(self.policy.read(obs), self._noise)
