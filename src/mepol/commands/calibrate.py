"""`mepol calibrate ENV`: what a little random play suggests for an exploration, and why."""

from __future__ import annotations

from dataclasses import dataclass

import tyro
from rich.table import Table

from mepol.commands.terminal import SomeInt, SomePath, assignment, parse
from mepol.console.progress import noting
from mepol.console.screen import counting, stdout
from mepol.errors import ConfigError
from mepol.exploration.calibrate import calibrate
from mepol.exploration.presets import PRESETS, starting_config
from mepol.runs.files import write_bytes
from mepol.runs.trust import remember
from mepol.settings import with_settings


@dataclass(frozen=True)
class CalibrateArguments:
    """Play at random in an environment for some thousand steps, and propose the settings of an exploration of it."""

    env: tyro.conf.Positional[str]
    """Any environment that `mepol explore` takes, but a preset: those are settled."""
    horizon: SomeInt = None
    """Steps of a trajectory; by default the environment's own limit."""
    env_arg: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An argument of the environment's construction, KEY=VALUE with a TOML value; may be given several times."""
    write: SomePath = None
    """New TOML file for the proposal; `mepol explore FILE` and `mepol sweep FILE` take it."""


def command(arguments: list[str]) -> None:
    """Play, show the proposal as a table, and write it."""
    parsed = parse(CalibrateArguments, arguments, "mepol calibrate")
    if parsed.env in PRESETS:
        raise ConfigError(f"{parsed.env} is a preset, and its settings are settled: mepol explore {parsed.env}")
    if parsed.write is not None and parsed.write.exists():
        raise ConfigError(f"{parsed.write} exists already: name another file, or remove it")
    changes = {} if parsed.horizon is None else {"horizon": parsed.horizon}
    config = with_settings(
        starting_config(parsed.env), {**changes, "env_kwargs": dict(map(assignment, parsed.env_arg))}
    )
    with counting("play", 1) as tell:
        found = calibrate(config, progress=lambda done, total, text: tell(done, total, text, False))
    for note in found.notes:
        noting(note)
    table = Table("setting", "proposal", "why")
    for row in found.suggestions:
        table.add_row(row.setting, str(row.value), row.reason)
    stdout.print(table)
    if parsed.write is None:
        stdout.print("--write FILE.toml keeps it; mepol explore FILE.toml takes it")
        return
    write_bytes(parsed.write, found.to_toml().encode())
    remember([parsed.env])  # so that the file is not asked about it
    stdout.print(f"written to {parsed.write}: mepol explore {parsed.write}")
