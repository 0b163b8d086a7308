"""`mepol zoo list|get|card|export`: policies that are shipped, and a card for one's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from rich.table import Table

from mepol.commands.terminal import SomePath, parse
from mepol.console.screen import stdout
from mepol.errors import ConfigError
from mepol.run import Run
from mepol.runs.zoo import shipped_names
from mepol.zoo.entry import card_of, copy, export, missing, results_of

COLUMNS = ("index", "discrete_entropy", "metra_cells", "goal_hit_rate")


@dataclass(frozen=True)
class ZooArguments:
    """Policies that are shipped: `zoo:NAME` stands for one wherever a run or a policy is taken.

    zoo list: what is there, and what is missing. zoo get NAME [DIR]: a copy as a run of your own. zoo card NAME: its
    card. zoo export RUN DIR: the same for a run of your own, measured here; nothing leaves the machine.
    """

    action: tyro.conf.Positional[Literal["list", "get", "card", "export"]]
    """What to do."""
    name: tyro.conf.Positional[str] = ""
    """Name in the zoo, or for export a run directory."""
    directory: tyro.conf.Positional[SomePath] = None
    """New directory to write; of get by default NAME."""


def command(arguments: list[str]) -> None:
    """Do what was asked for."""
    parsed = parse(ZooArguments, arguments, "mepol zoo")
    if parsed.action != "list" and not parsed.name:
        raise ConfigError(f"zoo {parsed.action} needs a name; the zoo has {', '.join(shipped_names())}")
    ACTIONS[parsed.action](parsed.name.removeprefix("zoo:"), parsed.directory)


def _list(_: str, __: Path | None) -> None:
    table = Table("zoo:", "index", "discrete entropy", "METRA's cells", "goals met", "10⁶ samples")
    table.columns[0].no_wrap = True  # what is typed
    for name in shipped_names():
        found = results_of(name)
        values = (found["measured"].get(column) for column in COLUMNS)
        cells = ["-" if v is None else f"{v:.3f}" if isinstance(v, float) else str(v) for v in values]
        table.add_row(name, *cells, f"{found['samples'] / 1e6:.2f}")
    stdout.print(table, soft_wrap=False)
    stdout.print("mepol zoo card NAME shows the command that made it")
    for name, words in missing().items():
        stdout.print(f"missing: {name}, which `{words}` would make")


def _get(name: str, out: Path | None) -> None:
    stdout.print(f"{copy(name, out or Path(name))}: mepol evaluate, video and finetune --init take it")


def _card(name: str, _: Path | None) -> None:
    stdout.print(card_of(name))


def _export(name: str, out: Path | None) -> None:
    if out is None:
        raise ConfigError("zoo export needs a new directory: mepol zoo export RUN DIR")
    for path in export(Run.open(name), out, tell=lambda text: stdout.print(f"{text} ...")):
        stdout.print(f"  {path}")


ACTIONS = {"list": _list, "get": _get, "card": _card, "export": _export}
