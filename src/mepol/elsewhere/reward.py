"""The k-NN log-volume as an intrinsic reward, in RLeXplore's three calls: watch, compute, update.

The reward of a step is its particle's share of the entropy estimate (Eq. 1), so that the mean over the particles of a
rollout is their entropy, in nats:

    r_i = ln V_i - ln(k / N) + ln k - psi(k),    mean of r = H_k

V_i is the ball that reaches the k-th neighbour of the state s_{t+1} that the step led to, among all N of the rollout.
A learner of its own climbs this one rollout at a time; MEPOL itself climbs the estimate, not a reward.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mepol.errors import CoincidentParticlesError, ConfigError, ParticleError
from mepol.estimators import entropy
from mepol.neighbours import neighbours

KEYS = ("observations", "actions", "rewards", "terminateds", "truncateds", "next_observations")
TINY = float(np.finfo(np.float64).tiny)


class LogVolumeReward:
    """Pays for states that are far from others of the same rollout.

    k: neighbours. features: coordinates of the observation that count; all without it. beta, kappa: the reward is
    weighted by beta (1 - kappa)^n after n updates. scale: "batch" subtracts the mean and divides by the deviation of
    each rollout, which learners like; "none" leaves nats. memory: earlier rollouts whose states are neighbours too.

    A coordinate without any spread is left out; a state that coincides with its k neighbours gets the least reward of
    the others. So a rollout is always paid, whatever it holds.

    >>> import torch
    >>> from mepol.elsewhere import LogVolumeReward
    >>> states = torch.randn(50, 4, 2, generator=torch.Generator().manual_seed(0))
    >>> samples = dict.fromkeys(("actions", "rewards", "terminateds", "truncateds"), torch.zeros(50, 4))
    >>> LogVolumeReward(k=4).compute({**samples, "observations": states, "next_observations": states}).shape
    torch.Size([50, 4])
    """

    def __init__(
        self,
        k: int = 4,
        *,
        features: Sequence[int] | None = None,
        beta: float = 1.0,
        kappa: float = 0.0,
        scale: Literal["batch", "none"] = "batch",
        memory: int = 0,
    ) -> None:
        for name, good in (("k", k >= 1), ("beta", beta >= 0), ("kappa", 0 <= kappa <= 1), ("memory", memory >= 0)):
            if not good:
                raise ConfigError(f"{name} is out of range: k >= 1, beta >= 0, kappa in [0, 1], memory >= 0")
        self.k, self.features, self.beta, self.kappa, self.scale = k, features, beta, kappa, scale
        self.global_step = 0
        self._earlier: deque[NDArray[np.float64]] = deque(maxlen=memory)

    @property
    def weight(self) -> float:
        """What the reward is multiplied by: beta (1 - kappa)^n after n updates."""
        return float(self.beta * (1.0 - self.kappa) ** self.global_step)

    def watch(
        self,
        observations: Tensor,
        actions: Tensor,
        rewards: Tensor,
        terminateds: Tensor,
        truncateds: Tensor,
        next_observations: Tensor,
    ) -> dict[str, Tensor] | None:
        """One step of all environments, (n_envs, ...) each. Nothing is kept: `compute` sees the whole rollout."""
        return None

    def compute(self, samples: Mapping[str, Tensor], sync: bool = True) -> Tensor:
        """(n_steps, n_envs) rewards of a rollout, float32; sync: call `update` afterwards.

        samples: tensors (n_steps, n_envs, ...) under `observations`, `actions`, `rewards`, `terminateds`, `truncateds`
        and `next_observations`, of which the last is read: where an episode ended it must be the end, not the start of
        the next.
        """
        missing = [key for key in KEYS if key not in samples]
        if missing:
            raise ParticleError(f"samples need {', '.join(KEYS)}: there is no {missing[0]!r}")
        after = samples["next_observations"]
        shape = tuple(after.shape[:2])
        nats = self._nats(self._particles(after))
        if self.scale == "batch":
            deviation = float(nats.std())
            nats = (nats - nats.mean()) / (deviation if deviation > 0 else 1.0)
        paid = torch.from_numpy((self.weight * nats).astype(np.float32)).reshape(shape)
        if sync:
            self.update(samples)
        return paid.to(after.device)

    def update(self, samples: Mapping[str, Tensor]) -> None:
        """There is nothing to learn: the weight decays, and the rollout becomes an earlier one."""
        self.global_step += 1
        if self._earlier.maxlen:
            self._earlier.append(self._particles(samples["next_observations"]))

    def _particles(self, after: Tensor) -> NDArray[np.float64]:
        """(n_steps, n_envs, S) -> (N, D), step after step."""
        if after.ndim < 3:
            raise ParticleError(f"samples have the shape (n_steps, n_envs, ...), not {tuple(after.shape)}")
        flat = after.detach().cpu().numpy().astype(np.float64).reshape(after.shape[0] * after.shape[1], -1)
        return flat if self.features is None else flat[:, list(self.features)]

    def _nats(self, particles: NDArray[np.float64]) -> NDArray[np.float64]:
        """(N,) each particle's share of the entropy of all that count."""
        everyone = np.concatenate([particles, *self._earlier])
        varied = everyone[:, everyone.max(axis=0) > everyone.min(axis=0)]
        if not varied.shape[1]:
            return np.zeros(len(particles))
        try:
            near = neighbours(varied, self.k)
        except CoincidentParticlesError:
            near = neighbours(varied, self.k, eps=TINY)
        volume = near.log_volume
        apart = volume > math.log(TINY) + 1
        if not apart.any():
            return np.zeros(len(particles))
        constant = entropy(near) - float(volume.mean())
        least = float(volume[apart].min())
        return (np.where(apart, volume, least) + constant)[: len(particles)]


def samples_of(**parts: Any) -> dict[str, Tensor]:
    """Arrays (n_steps, n_envs, ...) as the samples of `compute`; what is not given is zero."""
    known = {name: torch.as_tensor(np.asarray(value)) for name, value in parts.items()}
    shape = next(iter(known.values())).shape[:2]
    return {key: known.get(key, torch.zeros(shape)) for key in KEYS}
