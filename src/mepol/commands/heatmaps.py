"""`mepol heatmaps RUN`: where the policies of a run have been, for one that was made without a grid or with another."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from gymnasium.spaces import Box
from numpy.typing import NDArray

from mepol.algorithm.batch import Batch
from mepol.commands.terminal import at_least, parse
from mepol.console.screen import stdout
from mepol.envs.coordinates import Grid, pair_grid
from mepol.envs.domain import Domain
from mepol.envs.layout import span
from mepol.envs.reachable import reachable_cells
from mepol.errors import ConfigError, RunError
from mepol.evaluation.visits import visit_counts
from mepol.figures.summary import draw_heatmaps
from mepol.run import Run
from mepol.runs.drive import best_kept


@dataclass(frozen=True)
class HeatmapsArguments:
    """Play the initial, the best and the last policy of a run afresh, and draw where they have been."""

    run: tyro.conf.Positional[Path]
    """Run directory, of exploration or of fine-tuning."""
    axes: str = ""
    """Two coordinates by name or number, `x,y`, or with ranges and bins, `x:-12:12:40,y:-12:12:40`; of one alone the
    heatmap is a histogram. By default the run's own, or the first two that its entropy is of; a range that nobody knows
    is that of the states seen."""
    trajectories: int = 100
    """Fresh trajectories of each policy."""
    seed: int = 0
    """Of the fresh trajectories."""
    replace: bool = False
    """Take the place of the heatmaps that the run has."""


def command(arguments: list[str]) -> None:
    """Measure, store the grid and the visits in the run, and draw them: `animate` and `goals` then read them."""
    parsed = parse(HeatmapsArguments, arguments, "mepol heatmaps")
    at_least("trajectories", parsed.trajectories, 1)
    at_least("seed", parsed.seed, 0)
    run = Run.open(parsed.run)
    directory, old = run.directory, run.directory.evaluated_turns()
    if old and not parsed.replace:
        raise RunError(f"{run.path} has {len(old)} heatmaps already: give --replace to put others in their place")
    with directory.held():
        maps, domain = fresh_maps(run, parsed.axes, parsed.trajectories, parsed.seed)
        _store(run, maps, domain)
        paths = draw_heatmaps(directory)
    turns = ", ".join(map(str, maps))
    stdout.print(f"heatmaps over {words(domain.grid)}, of {directory.phase.turn}s {turns}; figures:")
    for path in paths:
        stdout.print(f"  {path}")


def _store(run: Run, maps: dict[int, NDArray[np.int64]], domain: Domain) -> None:
    """Put `maps` and their grid in the place of what the run has."""
    directory, door = run.directory, run.directory.door
    for folder in ("heatmaps", "figures"):
        door.folder(folder)
    stale = [
        directory.visits_path(turn).with_suffix(end) for turn in directory.evaluated_turns() for end in (".csv", ".png")
    ]
    for path in stale:
        if path.exists():
            door.remove(f"heatmaps/{path.name}")
    door.write_text("domain.json", domain.to_json())
    for turn, visits in maps.items():
        directory.save_visits(turn, visits)


def fresh_maps(run: Run, axes: str, trajectories: int, seed: int) -> tuple[dict[int, NDArray[np.int64]], Domain]:
    """Visits (bins_0, bins_1) of the run's initial, best and last policy, by turn, and its domain with their grid."""
    with run.working(trajectories) as env:
        batches = {turn: run.rollout(env, which=which, seed=seed) for turn, which in policies(run).items()}
        grid = chosen_grid(run.domain, axes, list(batches.values()))
        domain = dataclasses.replace(run.domain, grid=grid, reachable=reachable_cells(env, grid))
    return {turn: visit_counts(batch, grid).sum(axis=0) for turn, batch in batches.items()}, domain


def policies(run: Run) -> dict[int, str]:
    """Turn -> which policy of the run is of that turn, in order; each policy once.

    The last is as old as the newest checkpoint, with which it is written.
    """
    newest = next((path.stem.rpartition("-")[2] for path in run.directory.checkpoints()), None)
    if newest is None:
        raise RunError(f"{run.path} has no policy yet: it never began")
    found = {int(newest): "last"}
    if (kept := best_kept(run.directory)) is not None:
        found.setdefault(kept[0], "best")
    if run.directory.policy_path("initial").is_file():
        found.setdefault(0, "initial")
    return dict(sorted(found.items()))


def chosen_grid(domain: Domain, axes: str, batches: list[Batch]) -> Grid:
    """The grid of `axes`, or where that is empty the domain's own, or one over its first two coordinates, or its only.

    A range that neither says is that of the states in `batches`.
    """
    if not axes and domain.grid is not None:
        return domain.grid
    names, own = domain.places
    if not names:
        raise ConfigError(f"{domain.env} has no coordinates to show: nobody tells a true state behind its pictures")
    plain = [] if callable(domain.features) else [f for feature in domain.features for f in np.atleast_1d(feature)]
    first = plain[:2] if len(plain) >= 2 else range(min(len(names), 2))  # of an angle, its cosine and sine
    seen = np.concatenate([batch.placed[:, 1:][batch.visited()] for batch in batches])  # (N, S)
    low, high = seen.min(axis=0), seen.max(axis=0)
    still = low == high  # a coordinate that never moves still has a cell
    low, high = np.where(still, low - 0.5, low), np.where(still, high + 0.5, high)
    width = span(own.low, own.high)
    bounded = (width > 0) & (width < np.inf)
    space = Box(np.where(bounded, own.low, low), np.where(bounded, own.high, high), dtype=np.float64)
    return pair_grid(axes or ",".join(map(str, first)), names, space, domain.grid)


def words(grid: Grid | None) -> str:
    """A grid as `--axes` takes it."""
    assert grid is not None
    ends = list(zip(grid.names, grid.low, grid.high, grid.bins, strict=True))[: grid.shown]
    return ",".join(f"{name}:{low:.6g}:{high:.6g}:{bins}" for name, low, high, bins in ends)
