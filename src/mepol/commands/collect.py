"""`mepol collect RUN --steps N --out ID_OR_DIR`: what a policy does, as a dataset for offline learners."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from mepol.commands.terminal import Which, at_least, parse
from mepol.console.screen import counting, stdout
from mepol.elsewhere.dataset import write_dataset
from mepol.run import Run


@dataclass(frozen=True)
class CollectArguments:
    """Play a run's policy afresh and write what happens as a dataset. Rewards are 0 unless a goal gives them."""

    run: tyro.conf.Positional[Path]
    """Run directory, of exploration or of fine-tuning."""
    steps: int
    """Environment steps, to the very step; more go on where fewer end."""
    out: str
    """Id of a new Minari dataset, as mepol/ant/explore-v0, or a new folder for Parquet."""
    format: Literal["minari", "parquet"] = "minari"
    """Minari keeps datasets under MINARI_DATASETS_PATH (~/.minari/datasets); Parquet has a row per step."""
    which: Which = "last"
    """Which policy plays."""
    goal: str = ""
    """Task whose goal gives the rewards (1 where it is first reached, which ends the episode), or module:function."""
    seed: int = 0
    """Of start states and action noise."""


def command(arguments: list[str]) -> None:
    """Play and write, under a progress bar."""
    parsed = parse(CollectArguments, arguments, "mepol collect")
    at_least("steps", parsed.steps, 1)
    at_least("seed", parsed.seed, 0)
    run = Run.open(parsed.run)
    with counting("step", parsed.steps) as tell:
        where = write_dataset(
            run,
            parsed.out,
            parsed.steps,
            format=parsed.format,
            which=parsed.which,
            goal=parsed.goal,
            seed=parsed.seed,
            progress=lambda done, total: tell(done, total, "", False),
        )
    opened = f"minari.load_dataset({where!r})" if parsed.format == "minari" else f"pandas.read_parquet({where!r})"
    stdout.print(f"{parsed.steps} steps in {where}: {opened} opens them")
