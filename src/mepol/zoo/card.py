"""The card of a policy: a README.md with YAML front matter in the hub's layout, written from results.json alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mepol.exploration.config import ExploreConfig
from mepol.exploration.presets import PRESETS
from mepol.runs.machine import MACHINE_SETTINGS
from mepol.runs.text import plain
from mepol.settings import flat_settings

MEASURES = {
    "index": ("entropy index", "nats"),
    "discrete_entropy": ("discrete entropy per episode", "nats"),
    "pooled_entropy": ("pooled discrete entropy", "nats"),
    "cells": ("cells visited", ""),
    "coverage": ("share of the reachable cells visited", ""),
    "goal_hit_rate": ("zero-shot goal coverage", ""),
    "metra_cells": ("METRA's cells", ""),
    "metra_cells_mean_actions": ("METRA's cells, mean actions", ""),
}
"""What is measured: its words and its unit."""
_UNTOLD = ("seed", "env", "explorer", "ceiling", *MACHINE_SETTINGS)


def command_of(config: ExploreConfig) -> str:
    """The command that made a run: the nearest preset of its environment, and what differs from it."""
    wanted = _told(config)
    others = {config.env: ExploreConfig(env=config.env)}
    known = {name: entry.config_for(config.explorer) for name, entry in PRESETS.items()}
    near = {name: one for name, one in known.items() if one.env == config.env} or others
    # The same walls, or the same class of environments, come before settings that are alike.
    alike = {name: one for name, one in near.items() if _places(one) == _places(config)}
    near = alike or near
    changes = {
        name: {key: value for key, value in wanted.items() if _told(one).get(key) != value}
        for name, one in near.items()
    }
    name = min(changes, key=lambda each: len(changes[each]))
    words = [f"mepol explore {name}", *(["--explorer", config.explorer] if config.explorer != "mepol" else [])]
    words += [_flag(key, value) for key, value in changes[name].items() if value is not None]
    return " ".join([*words, f"--seed {config.seed}"])


def _places(config: ExploreConfig) -> tuple[Any, ...]:
    """What is explored, beside the name of the environment."""
    return config.env_kwargs, config.worlds.envs


def _told(config: ExploreConfig) -> dict[str, Any]:
    own = ("unit_actions",) if config.env.startswith("mepol/") else ()  # these keep their raw units whatever is asked
    return {name: value for name, value in flat_settings(config).items() if name not in (*_UNTOLD, *own)}


def _flag(name: str, value: Any) -> str:
    flag = name.replace("_", "-")
    if name == "env_kwargs":
        return " ".join(f"--env-arg {key}={json.dumps(own)}" for key, own in value.items())
    if name == "envs":
        return "--envs FILE.toml"  # which the settings beside the card hold
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    text = " ".join(map(str, value)) if isinstance(value, tuple) else f"{value:g}" if type(value) is float else value
    return f"--{flag} {text}"


def card_text(name: str, results: Mapping[str, Any]) -> str:
    """README.md of the policy `name`: the front matter that hubs read, then what a person wants to know."""
    measured = {key: value for key, value in results["measured"].items() if key in MEASURES}
    env = _safe(results["env"])
    metrics = [
        f"          {line}"
        for key, value in measured.items()
        for line in (f"- type: {key}", f"  name: {_quoted(_words(key))}", f"  value: {value}")
    ]
    head = [
        *("---", "library_name: mepol", "tags:", "  - reinforcement-learning", "  - reward-free-exploration"),
        *("  - maximum-entropy-exploration", f"  - {_quoted(env)}", "model-index:"),
        *(f"  - name: {_quoted(_safe(name))}", "    results:", "      - task:"),
        *("          type: reinforcement-learning", "          name: reward-free exploration", "        dataset:"),
        *(f"          name: {_quoted(env)}", f"          type: {_quoted(env)}", "        metrics:"),
        *(*metrics, "---"),
    ]
    rows = [f"| {_words(key)} | {_number(value)} |" for key, value in measured.items()]
    repeat = results["measured"]["repeat"]
    body = f"""
# {_safe(name)}

A policy that covers the states of `{env}` evenly, learnt without any reward.

![replay](replay.gif)

| made by | |
|---|---|
| command | `{_safe(results["command"])}` |
| seed | {results["seed"]} |
| epoch of the policy, of those asked for | {results["epoch"]} of {results["length"]} |
| samples | {results["samples"]} environment steps |
| seconds of training, where it was run | {results["seconds"]:.0f} |

| measured on {results["trajectories"]} fresh trajectories of {results["horizon"]} steps | |
|---|---|
{chr(10).join(rows)}

The index is that of the {results["k"]} nearest neighbours, over the coordinates `{_safe(results["features"])}`. On
{repeat["trajectories"]} trajectories it is {repeat["index"]:.3f}, and a further batch of as many lies between
{repeat["low"]:.3f} and {repeat["high"]:.3f} ({100 * repeat["confidence"]:g} %, from {repeat["batches"]} batches).
METRA's cells are counted on 48 trajectories of 200 steps. Goals are the cells of the policy's heatmap.

    mepol evaluate DIR
    mepol video DIR --out replay.mp4
    mepol finetune TASK --init DIR

DIR is this folder. Nothing in it is executed when it is opened.
"""
    return "\n".join(head) + "\n" + body


def _words(measure: str) -> str:
    name, unit = MEASURES[measure]
    return f"{name} ({unit})" if unit else name


def _number(value: float) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _safe(text: str) -> str:
    """A stranger's text within one line of Markdown, in which it is shown and marks nothing up."""
    return plain(str(text), 400).replace("\n", " ").replace("`", "'").replace("|", "/").replace("<", "(")


def _quoted(text: str) -> str:
    """`text` as YAML: a JSON string is one."""
    return json.dumps(text)
