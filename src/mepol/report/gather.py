"""All that the page shows of some runs, as plain values for JSON: read from their directories, no environment made."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mepol.envs.coordinates import Grid
from mepol.envs.domain import Domain
from mepol.errors import MepolError
from mepol.evaluation import discrete_entropy
from mepol.report.attachments import films, goals
from mepol.report.charts import SHOWN
from mepol.runs.changes import changes_of
from mepol.runs.checkpoint import versions, written_with
from mepol.runs.directory import RunDirectory
from mepol.runs.domain import load_domain
from mepol.runs.drive import best_kept
from mepol.runs.text import plain
from mepol.settings import describe

Run = RunDirectory[Any, Any]
MAX_POINTS = 4000  # of a curve: more than a screen has columns
MAX_MAPS = 200  # positions of the slider
MAX_SIDE = 128  # cells along a side of a heatmap on the page; finer ones are added up
MAX_CELLS = 1_500_000  # of all heatmaps of a run


def gather(runs: Sequence[Run]) -> dict[str, Any]:
    """What the page shows of `runs`; only texts, numbers, lists and dictionaries, ready for JSON."""
    phases = dict.fromkeys(run.phase.name for run in runs)
    found = {
        "phases": {name: dataclasses.asdict(SHOWN[name]) for name in phases},
        "versions": versions(),
        "runs": [{"title": title, **_run(run)} for run, title in zip(runs, _titles(runs), strict=True)],
    }
    return {name: _safe(value) for name, value in found.items()}


def _titles(runs: Sequence[Run]) -> list[str]:
    """Names of the directories, or whole paths where two have one name."""
    names = [run.path.resolve().name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.path) for run in runs]


def _run(run: Run) -> dict[str, Any]:
    config, rows, domain = run.config, run.rows(), _domain(run)
    return {
        "path": str(run.path),
        "phase": run.phase.name,
        "turn": run.phase.turn,
        "where": ", ".join(filter(None, (*run.phase.goals(config), *run.phase.names(config)))),
        "who": str(getattr(config, "explorer", None) or getattr(config, "algo", "")),
        "seed": str(config.seed),  # 2**63 - 1 is more than a number of JavaScript can hold
        "finished": run.is_finished,
        "length": _length(run),
        "rows": len(rows),
        "columns": _columns(run, rows),
        "limits": _limits(config, domain),
        "policies": _policies(run, rows),
        "maps": _maps(run, domain),
        "goals": goals(run.path / "figures" / "goals.csv"),
        "films": films(run.path / "figures"),
        "settings": [
            {"group": s.group, "name": s.name, "value": _text(s.default), "text": s.text} for s in describe(config)
        ],
        "changes": [dataclasses.asdict(change) for change in changes_of(run)],
        "versions": written_with(run),
    }


def _length(run: Run) -> int | None:
    with suppress(MepolError):  # an explorer that was handed in alone knows how long it goes on
        return run.phase.length(run.config)
    return None


def _domain(run: Run) -> Domain | None:
    """What the run has stored of its environment; one of an earlier version stored nothing, and nothing is made."""
    with suppress(MepolError):  # features that are a function, which no file holds
        return load_domain(run) if (run.path / "domain.json").exists() else None
    return None


# --- numbers --------------------------------------------------------------------------------------------------------


def _columns(run: Run, rows: Sequence[Any]) -> dict[str, list[Any]]:
    """metrics.csv by column, with what the page derives; of a long run evenly spaced rows, and all that were measured
    as far as there is room."""
    table = {name: [getattr(row, name) for row in rows] for name in run.phase.metrics.columns}
    ascent = getattr(run.config, "ascent", None)
    if ascent is not None:
        table["kl_used"] = [None if kl is None else 100 * kl / ascent.kl_threshold for kl in table["kl"]]
    if run.phase.details is not None and (path := run.path / run.phase.details.name).exists():
        steps = (row for row in run.phase.details.read(path) if getattr(row, "step", 0) >= 0)  # below: a batch dropped
        tried = Counter(getattr(step, run.phase.turn) for step in steps)
        table["tried"] = [tried.get(turn) for turn in table[run.phase.turn]]
    if len(rows) > MAX_POINTS:
        measured = [i for i, value in enumerate(table[run.phase.score]) if value is not None]
        kept = {*_spread(len(rows), MAX_POINTS), *(measured[i] for i in _spread(len(measured), MAX_POINTS))}
        table = {name: [values[i] for i in sorted(kept)] for name, values in table.items()}
    return {name: values for name, values in table.items() if any(value is not None for value in values)}


def _spread(count: int, most: int) -> list[int]:
    """At most `most` of the numbers below `count`, evenly spaced, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})


def _limits(config: Any, domain: Domain | None) -> dict[str, float | None]:
    """Lines across charts, by the names that charts.py has for them."""
    reachable = None if domain is None else domain.reachable
    explores = hasattr(config, "ascent")
    return {
        "ceiling": None if domain is None else domain.ceiling,
        "reachable": None if reachable is None else int(np.count_nonzero(reachable)),
        "particles": config.trajectories * config.horizon if explores else None,
        "whole": 100.0 if explores else None,
    }


def _policies(run: Run, rows: Sequence[Any]) -> list[dict[str, Any]]:
    """The first, the best and the last measured policy, and what was measured of each."""
    turn, score = run.phase.turn, run.phase.score
    measured = [row for row in rows if getattr(row, score) is not None]
    if not measured:
        return []
    best = max(measured, key=lambda row: getattr(row, score))
    if (kept := best_kept(run)) is not None:  # its file knows better than rows that may have been written anew
        same = next((row for row in measured if getattr(row, turn) == kept[0]), type(best)(kept[0], 0))
        best = dataclasses.replace(same, **{score: kept[1]})
    first = "initial" if getattr(measured[0], turn) == 0 else "first"
    names = [measure.column for measure in SHOWN[run.phase.name].measures]
    return [
        {"which": which, "turn": getattr(row, turn), **{name: getattr(row, name) for name in names}}
        for which, row in ((first, measured[0]), ("best", best), ("last", measured[-1]))
    ]


# --- heatmaps -------------------------------------------------------------------------------------------------------


def _maps(run: Run, domain: Domain | None) -> dict[str, Any] | None:
    """The stored visits: each map a list row by row in which -n stands for n cells that nobody visited."""
    turns = run.evaluated_turns()
    if not turns:
        return None
    first = run.load_visits(turns[0])
    side = max(1, *(math.ceil(bins / MAX_SIDE) for bins in first.shape))
    room = MAX_CELLS // max(_coarse(first, side).size, 1)
    shown, frames = [turns[i] for i in _spread(len(turns), max(2, min(MAX_MAPS, room)))], []
    for turn in shown:
        visits = run.load_visits(turn)
        if visits.shape != first.shape:
            continue  # of another grid, which a run that was taken back may have left
        numbers = {"cells": int(np.count_nonzero(visits)), "nats": discrete_entropy(visits), "visits": visits.sum()}
        frames.append({"turn": turn, **numbers, "counts": _packed(_coarse(visits, side))})
    grid = None if domain is None else domain.grid
    known = grid is not None and grid.bins == first.shape
    return {
        "grid": {
            **(_axes(grid) if grid and known else UNKNOWN_AXES | {"high": first.shape}),
            "bins": _coarse(first, side).shape,
        },
        "stored": len(turns),
        "together": side,
        "frames": frames,
    }


UNKNOWN_AXES: dict[str, Any] = {"names": ["first axis, cells", "second axis, cells"], "low": [0, 0]}


def _axes(grid: Grid) -> dict[str, Any]:
    """Names and ends of a grid's axes; a line has one of its own, and a second without meaning."""
    if grid.line:
        return {"names": [grid.names[0], ""], "low": [grid.low[0], 0], "high": [grid.high[0], 1]}
    return {"names": grid.names, "low": grid.low, "high": grid.high}


def _coarse(visits: NDArray[np.int64], side: int) -> NDArray[np.int64]:
    """Visits of squares of `side` by `side` cells together."""
    if side == 1:
        return visits
    padded = np.pad(visits, [(0, -bins % side) for bins in visits.shape])
    sums: NDArray[np.int64] = padded.reshape(padded.shape[0] // side, side, -1, side).sum(axis=(1, 3))
    return sums


def _packed(visits: NDArray[np.int64]) -> list[int]:
    packed: list[int] = []
    for count in visits.ravel().tolist():
        if count:
            packed.append(count)
        elif packed and packed[-1] < 0:
            packed[-1] -= 1
        else:
            packed.append(-1)
    return packed


# --- plain values ---------------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _safe(value: Any) -> Any:
    """`value` as JSON can hold it and a page can show it: texts plain, numbers finite and of seven digits."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {plain(str(name)): item if name == "uri" else _safe(item) for name, item in value.items()}  # ours
    if isinstance(value, list | tuple):
        return [_safe(item) for item in value]
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return value
