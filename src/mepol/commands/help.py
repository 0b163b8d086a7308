"""`mepol help`, and the settings of a command: the few that people use on one screen, all of them on request."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import MISSING
from itertools import groupby
from typing import Any

from mepol import __version__
from mepol.console.screen import stdout
from mepol.settings import Described

WIDTH = 100
USAGE = f"""\
mepol {__version__}: explore without rewards, and get one policy that covers the states evenly

  mepol explore PRESET|ENV_ID [--fast] [--seed S] [--epochs E] [--out DIR] [settings]   learn an exploration policy
  mepol calibrate ENV_ID|FILE.py:CLASS [--write FILE.toml]                     settings for it, with their reasons
  mepol finetune TASK [--init RUN|none] [--which W] [--algo trpo|...] [--out DIR]       learn a sparse task from it
  mepol resume RUN [--epochs E | --iterations I]                               continue a run that was stopped
  mepol evaluate RUN... [--which W] [--trajectories N] [--seed S] [--json]     measure what their policies cover
  mepol compare RUN... [--out DIR]                                             runs side by side, with intervals
  mepol sweep FILE|PRESET|ENV_ID [--seeds N] [--jobs J] [--out DIR]            seeds and variants, in parallel
  mepol horizon RUN... [--which W] [--until H] [--out DIR]                     entropy over the testing horizon
  mepol heatmaps RUN [--axes x,y] [--replace]                                  heatmaps of a run without them
  mepol animate RUN [--out FILE.gif]                                           coverage over training
  mepol report RUN... [--out DIR] [--live] [--open]                            one page of curves, maps, settings
  mepol video RUN [--which W] [--episodes N] [--out FILE.mp4]                  film it, before and after training
  mepol goals RUN [--which W] [--trajectories N] [--seed S] [--json]           how often it meets goals untrained
  mepol export RUN|POLICY --to sb3-ppo|onnx|... [--which W] [--out FILE]       the policy for another program
  mepol collect RUN --steps N --out ID|DIR [--which W] [--goal TASK]           its data for offline learners
  mepol reproduce FIGURE...|all [--scale smoke|quick|paper] [--jobs J]         the paper's figures by name; --list
  mepol zoo list|get NAME|card NAME|export RUN DIR                             policies that are shipped, with cards
  mepol presets                                                                the paper's settings, with sources
  mepol doctor                                                                 what works here, and what is missing
  mepol completion bash|zsh|fish                                               Tab completes commands and flags

RUN is the directory of an exploration or of a fine-tuning, or a shipped one, zoo:NAME. --which says which of its
policies is meant: last (the newest), best (the one with the best evaluation) or initial (the one it started from).
`mepol explore gridworld --help` shows the settings people use, --help-all every one; each command takes --help,
and --verbose, which shows warnings and faults in full.
"""


def command(arguments: list[str]) -> None:
    """Print the usage."""
    stdout.print(USAGE, end="")


def first_screen(usage: str, what: str, rows: Sequence[Described], names: Sequence[str]) -> str:
    """At most a screen: `usage`, one line on what it does, and the settings called `names`, a line each."""
    known = {row.name: row for row in rows}
    more = Described("help_all", "bool", False, "", "Every setting, with its range, its default and what it is.", "")
    chosen = [*(known[name] for name in names), more]
    return "\n".join([f"usage: {usage}", what, "", *map(_line, chosen)])


def all_settings(usage: str, what: str, rows: Sequence[Described], titles: dict[str, str]) -> str:
    """Every setting by group, in the groups' order in `titles`, which gives each its heading."""
    order = list(titles)
    parts = [f"usage: {usage}", what]
    shown = [row for row in rows if row.group in titles]
    for group, members in groupby(sorted(shown, key=lambda row: order.index(row.group)), key=lambda row: row.group):
        parts += ["", f"{titles[group]}:"]
        for row in members:
            parts.append(f"  {_left(row)}{_facts(row)}")
            parts += textwrap.wrap(row.text, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return "\n".join(parts)


def _line(row: Described) -> str:
    """A setting on one line; its text gives way to its default and range."""
    left, facts = f"  {_left(row):<24}", _facts(row)
    room = WIDTH - len(left) - len(facts) - 1
    return f"{left} {textwrap.shorten(row.text, room, placeholder=' ...')}{facts}"


def _left(row: Described) -> str:
    if row.type == "bool":  # what is on by default is typed to be switched off
        return row.flag if row.default is False else f"--no-{row.flag[2:]}"
    return f"{row.flag} {'NAME' if '|' in row.type else row.type.upper()}"


def _facts(row: Described) -> str:
    """Default and range, in brackets."""
    choices = f"one of {row.type.replace('|', ', ')}" if "|" in row.type else ""
    default = "must be given" if row.default is MISSING else "" if row.default is False else _value(row.default)
    facts = [part for part in (default, row.allowed, choices) if part]
    return f" [{'; '.join(facts)}]" if facts else ""


def _value(value: Any) -> str:
    """As a user would type it."""
    if value is True:
        return "on"
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
