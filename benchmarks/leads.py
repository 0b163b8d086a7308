"""Leads for hard bodies, each a part that is handed to `mepol.explore`; docs/results/did-not-win.md has the numbers.

    python benchmarks/leads.py LEAD PRESET [--seed 0] [--epochs 40] [--out DIR]

    none   the preset as it is
    tail   a particle is worth the mean of ln r over its twelve nearest neighbours, not ln r of the k-th
    clock  the policy sees t/T as one more input; a mirror leaves it as it is (ant-fast alone)
    late   the critic alone sees t/T (ant-fast alone)
    again  each pass climbs on the batch before as well, clipped around the policy it starts from (GePPO)

All else is the preset's, the index that is measured too.
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import mepol
from mepol.algorithm import Ascent, Batch, Critic, KnnLandscape, Mirror, Paths, Rule, Symmetry
from mepol.algorithm.advantage import judged_by
from mepol.envs.ant import FEATURE_NAMES, FRAME_SKIP, MODEL, SYMMETRIES, AntVectorEnv
from mepol.envs.physics import MujocoVectorEnv, load_spec
from mepol.exploration.presets import preset
from mepol.settings import flat_settings

TAIL = 12  # neighbours whose distances a particle's worth is the mean of
STEPS = 500  # of an ant's trajectory, T
PAST = 1  # batches before this one that a pass climbs on as well

# --- the lower tail of the rewards, tamed ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Tame(KnnLandscape):
    """The paper's objective, but for what a particle is worth: D times the mean of ln r_j, j = 1 .. k."""

    x: NDArray[np.float64] | None = None

    def worth(self) -> NDArray[np.float64]:
        """(N,) nats, up to a constant."""
        assert self.x is not None
        r = np.linalg.norm(self.x[self.near.index] - self.x[:, None], axis=2)  # (N, K)
        return self.x.shape[1] * np.log(np.maximum(r, 1e-12)).mean(1)


def tame(batch: Batch, domain: Any) -> Tame:
    """The objective of one batch."""
    x = np.asarray(domain.particles(batch), dtype=np.float64)
    return Tame(KnnLandscape.of(x, TAIL, workers=1).near, x=x)


# --- the time as an input -------------------------------------------------------------------------------------------


def with_clock(symmetries: Sequence[Symmetry]) -> tuple[Symmetry, ...]:
    """The same with one more coordinate of the state, which stays as it is."""
    longer = [Mirror((*one.states.index, len(one.states.index)), (*one.states.sign, 1)) for one in symmetries]
    return tuple(Symmetry(states, one.actions) for states, one in zip(longer, symmetries, strict=True))


class ClockedAnt(AntVectorEnv):
    """Ants that see which part of their T steps is over."""

    symmetries = with_clock(SYMMETRIES)

    def __init__(self, num_envs: int = 1, render_mode: str | None = None, threads: int | None = None) -> None:
        model = load_spec("gymnasium", MODEL).compile()
        names = (*FEATURE_NAMES, "clock")
        MujocoVectorEnv.__init__(
            self, model, names, FRAME_SKIP, num_envs=num_envs, render_mode=render_mode, threads=threads
        )

    def read(self, i: int, state: NDArray[np.float64]) -> None:
        """The ant's state, and the share of the horizon that is over."""
        super().read(i, state)
        state[-1] = self.data[i].time / (STEPS * FRAME_SKIP * self.model.opt.timestep)


# --- the batch before, once more ------------------------------------------------------------------------------------


class Again:
    """The clipped surrogate of a batch and of those kept before it, each around the policy the pass starts from."""

    def __init__(self) -> None:
        self.kept: deque[tuple[Paths, torch.Tensor, torch.Tensor]] = deque(maxlen=PAST + 1)

    def __call__(
        self, policy: Any, paths: Paths, sampled: torch.Tensor, gain: torch.Tensor, clip: float
    ) -> Callable[[slice], torch.Tensor]:
        """Its surrogate, of rows of every batch."""
        self.kept.append((paths, sampled, gain))
        with torch.no_grad():
            starts = [old.log_prob(policy) for old, _, _ in self.kept]

        def surrogate(rows: slice) -> torch.Tensor:
            climbed = []
            for (old, drawn, worth), start in zip(self.kept, starts, strict=True):
                ratio = (old.log_prob(policy, rows) - drawn[rows]).exp()
                middle = (start[rows] - drawn[rows]).exp()
                clipped = torch.clamp(ratio, middle - clip, middle + clip)
                climbed.append(torch.minimum(ratio * worth[rows], clipped * worth[rows]).mean())
            return torch.stack(climbed).mean()

        return surrogate


def by_advantage_again(policy: Any, config: Any, critic: Any, state_dim: int, rng: np.random.Generator) -> Ascent:
    """The rule `advantage` on this batch and the one before it."""
    return judged_by(Critic(state_dim, critic, rng), policy, config, surrogates=Again())


class LateCritic(Critic):
    """V(s, t/T), of trajectories that all have their full length; a mirror leaves the time as it is."""

    def tie(self, symmetries: Sequence[Symmetry]) -> None:
        """From here on value the images of a state alike, at equal times."""
        super().tie(with_clock(symmetries))

    def watch(self, states: torch.Tensor) -> None:
        """Of (N, S) states, in the order of `Paths`."""
        super().watch(self._timed(states))

    def values(self, states: NDArray[Any]) -> NDArray[np.float64]:
        """(M, T+1, S) states -> (M, T+1) values."""
        times = np.broadcast_to(np.arange(STEPS + 1)[:, None] / STEPS, (len(states), STEPS + 1, 1))
        return super().values(np.concatenate([states, times], axis=2))

    def fit(self, states: torch.Tensor, returns: torch.Tensor, optimiser: torch.optim.Optimizer) -> None:
        """Regress to the returns (N,) of (N, S) states."""
        super().fit(self._timed(states), returns, optimiser)

    def _timed(self, states: torch.Tensor) -> torch.Tensor:
        times = (torch.arange(len(states)) % STEPS) / STEPS
        return torch.cat([states, times[:, None]], dim=1)


def by_late_advantage(policy: Any, config: Any, critic: Any, state_dim: int, rng: np.random.Generator) -> Ascent:
    """The rule `advantage` with a critic that sees t/T as one more coordinate."""
    return judged_by(LateCritic(state_dim + 1, critic, rng), policy, config)


LATE = Rule("late", "advantages of a critic that sees the time", by_late_advantage, False)
AGAIN = Rule("again", "advantages of this batch and of the one before", by_advantage_again, False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lead", choices=("none", "tail", "clock", "late", "again"))
    parser.add_argument("preset")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--out")
    asked = parser.parse_args()
    if asked.lead in {"clock", "late"} and asked.preset != "ant-fast":
        parser.error(f"{asked.lead} is made for ant-fast, whose trajectories all have {STEPS} steps")
    changes: dict[str, Any] = {"seed": asked.seed, "epochs": asked.epochs, "threads": 1, "evaluate_every": 10}
    what: Any = asked.preset
    if asked.lead == "clock":  # an environment of one's own has other defaults than a preset's
        config = preset(asked.preset).config
        worlds = flat_settings(config.worlds)
        own = {name: value for name, value in flat_settings(config).items() if name not in {"env", *worlds}}
        what, changes = ClockedAnt, own | changes
    parts = {"tail": {"objective": tame}, "again": {"rule": AGAIN}, "late": {"rule": LATE}}.get(asked.lead, {})
    run = mepol.explore(what, out=asked.out, **changes | parts)
    for epoch, index, discrete in zip(*(run.metrics[n] for n in ("epoch", "index", "discrete_entropy")), strict=True):
        if not np.isnan(index):
            print(f"{asked.lead} {asked.preset} seed {asked.seed} epoch {epoch}: {index:.2f} {discrete:.2f}")


if __name__ == "__main__":
    main()
