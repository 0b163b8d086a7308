"""A policy as a file of another program: the table of exporters, and where their files go.

name          files                        noise                        input scaling        noise correlation
sb3-ppo       .zip                         log_std copied               in the first layer   dropped
sb3-trpo      .zip                         log_std copied               in the first layer   dropped
sb3-sac       .zip, .replay.pkl            SAC's own; ours in the memory in the memory       in the memory
onnx          .onnx                        second output `std`          kept                 in the metadata
torchscript   .pt                          `sample(obs, noise)`         kept                 in the metadata
numpy         .py, .npz                    `act(obs, rng, noise)`       kept                 carried by `act`

The action is what the policy gives, in its own range, which every file's metadata tells; whoever acts clips it. Of a
policy of choices there is no spread: the files hold their logits, or probabilities, and SAC has no place for them.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from mepol.elsewhere.network import Network, Place, facts_of, network_of
from mepol.elsewhere.numpy_function import numpy_files
from mepol.elsewhere.onnx_graph import onnx_bytes
from mepol.elsewhere.play import run_episodes
from mepol.elsewhere.torch_script import script_bytes
from mepol.errors import ConfigError, RunError
from mepol.runs.files import Door
from mepol.runs.policies import load_policy
from mepol.sampling.actors import check_fit

Exporter = Callable[[Any, Place, Any], dict[str, bytes]]
"""(policy, place, play) -> files by their suffix, the first the one to be opened."""


def _in_arrays(make: Callable[[Network, dict[str, Any]], Any], suffix: str = "") -> Exporter:
    """An exporter that needs nothing but arrays and facts."""

    def exporter(policy: Any, place: Place, play: Any) -> dict[str, bytes]:
        made = make(network_of(policy), facts_of(policy, place))
        return {suffix: made} if suffix else made

    return exporter


def _in_sb3(name: str) -> Exporter:
    """An exporter that needs Stable-Baselines3, which is imported when it is asked for."""

    def exporter(policy: Any, place: Place, play: Any) -> dict[str, bytes]:
        network_of(policy)
        from mepol.elsewhere import sb3_model

        make = sb3_model.sac_files if name == "sac" else partial(sb3_model.on_policy_files, name)
        return make(policy, place, play)

    return exporter


EXPORTERS: dict[str, Exporter] = {
    "sb3-ppo": _in_sb3("ppo"),
    "sb3-trpo": _in_sb3("trpo"),
    "sb3-sac": _in_sb3("sac"),
    "onnx": _in_arrays(onnx_bytes, ".onnx"),
    "torchscript": _in_arrays(script_bytes, ".pt"),
    "numpy": _in_arrays(numpy_files),
}


def export(policy: Any, to: str, path: str | Path, *, place: Place | None = None, play: Any = None) -> list[Path]:
    """Write `policy` for another program (`to`, a name of EXPORTERS); returns the files, the one to open first.

    path: of that file; what lies beside it has the same name and another suffix. Nothing is overwritten.
    place: the spaces it acts in, where they are known. play: () -> fresh episodes, for sb3-sac.
    """
    if to not in EXPORTERS:
        near = get_close_matches(to, EXPORTERS, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(f"no export to {to!r}; {hint}there are {', '.join(EXPORTERS)}")
    path = Path(path)
    _require_free(path)
    files = EXPORTERS[to](policy, Place.unknown(policy) if place is None else place, play)
    opened, *others = files
    named = {path if path.suffix == opened else path.with_name(path.name + opened): files[opened]}
    stem = next(iter(named))
    named |= {stem.with_suffix(suffix): files[suffix] for suffix in others}
    for target in named:
        _require_free(target)
    door = Door(path.parent, "; choose another --out")
    return [door.write(target.name, data) for target, data in named.items()]


def export_file(file: Path, to: str, path: str | Path | None = None) -> list[Path]:
    """Export a policy file, of which nothing but the policy is known; by default into the working directory."""
    return export(load_policy(file), to, _named(file.stem, to) if path is None else path)


def export_run(
    run: Any,
    to: str,
    path: str | Path | None = None,
    *,
    which: str = "last",
    steps: int = 10_000,
    goal: str = "",
    seed: int = 0,
) -> list[Path]:
    """Export the policy `which` of a `mepol.Run`; by default into its directory.

    steps, goal, seed: of the episodes in SAC's memory, the goal being a task that gives them their rewards.
    """
    policy, domain = run.load(which), run.domain
    check_fit(policy, domain.state_dim, domain.action_space, domain.env)
    place = Place.of(domain, run.config.unit_actions)

    def play() -> list[Any]:
        return [episode for turn in run_episodes(run, steps, which=which, goal=goal, seed=seed) for episode in turn]

    target = run.path / _named(run.directory.policy_path(which).stem, to) if path is None else path
    return export(policy, to, target, place=place, play=play)


def _named(stem: str, to: str) -> str:
    """Without a suffix: the three models of Stable-Baselines3 share theirs, and are told apart before it."""
    return f"{stem}-{to}" if to.startswith("sb3-") else stem


def _require_free(path: Path) -> None:
    if path.exists():
        raise RunError(f"{path} is there already, and nothing is overwritten: choose another --out")
