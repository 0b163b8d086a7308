"""`mepol presets`: the paper's settings, each with where it comes from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.table import Table

from mepol.commands.terminal import parse
from mepol.console.screen import stdout
from mepol.exploration.presets import PRESETS
from mepol.finetuning.presets import task_rows
from mepol.finetuning.tasks import TASKS
from mepol.settings import Row


@dataclass(frozen=True)
class PresetsArguments:
    """List the presets of explore and finetune with their settings and where each comes from."""


def command(arguments: list[str]) -> None:
    """Print a table per preset and per task."""
    parse(PresetsArguments, arguments, "mepol presets")
    for name, entry in PRESETS.items():
        own = (row for rows in entry.rivals.values() for row in rows)
        _print(f"{name}: {entry.summary}", (*entry.rows, *own))
    for name, task in TASKS.items():
        _print(f"finetune {name}: {task.id}, which the paper starts from {task.explorer}", task_rows(name))


def _print(title: str, rows: Iterable[Row]) -> None:
    table = Table("setting", "value", "source", title=title, title_justify="left")
    for row in rows:
        table.add_row(row.setting, str(row.value), row.source)
    stdout.print(table, soft_wrap=False)
