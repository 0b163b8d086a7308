"""Episodes as datasets of other people's: Minari's, by id, or a folder of Parquet files, a row per step.

    minari    observations (T+1, S), actions (T, A), rewards, terminations, truncations per episode; HDF5, its default
    parquet   part-00000.parquet, ...: episode, step, observation, action, reward, next_observation, terminated,
              truncated; part 0 alone is a whole table; the facts are the files' metadata `mepol`, as JSON

Discrete actions are whole numbers from 0, and of a single choice a number, (T,).

Both are written round by round: whoever stops the work keeps what was finished. Nothing is overwritten.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import gymnasium
import numpy as np

from mepol.elsewhere.episodes import Episode
from mepol.elsewhere.network import Place
from mepol.elsewhere.optional import optional
from mepol.elsewhere.play import find_goal, run_episodes
from mepol.errors import ConfigError, MepolError, RunError
from mepol.finetuning.goals import Goal
from mepol.runs.files import Door, output_folder

_ID = re.compile(r"([A-Za-z0-9_-]{2,}/){0,3}[A-Za-z0-9_-]+-v[0-9]{1,4}")


class Writer(Protocol):
    """One dataset that is being written."""

    where: str
    """What it is called, for a sentence."""

    def add(self, episodes: Sequence[Episode]) -> None:
        """Write another round."""
        ...


class MinariWriter:
    """A Minari dataset; `out` is its id, `mepol/ant/explore-v0`."""

    def __init__(self, out: str, place: Place, facts: Mapping[str, Any], env: Any = None) -> None:
        self._minari = optional("minari", "data")
        optional("h5py", "data")
        if not _ID.fullmatch(out):
            raise ConfigError(
                f"{out!r} is no id of a Minari dataset: write NAMESPACE/ENV/NAME-v0, as mepol/ant/explore-v0"
            )
        path = Path(self._minari.storage.get_dataset_path(out))
        if path.exists():
            raise RunError(f"the dataset {out!r} is there already ({path}): choose another --out, as a higher version")
        self.where, self._place, self._facts, self._env = out, place, dict(facts), env
        self._dataset: Any = None

    def add(self, episodes: Sequence[Episode]) -> None:
        """Make the dataset of the first round, and add to it afterwards."""
        buffers = [self._buffer(episode) for episode in episodes]
        if self._dataset is not None:
            self._dataset.update_dataset_from_buffer(buffers)
            return
        with warnings.catch_warnings():  # its advice to authors of public datasets
            warnings.simplefilter("ignore", UserWarning)
            self._make(buffers)

    def _make(self, buffers: list[Any]) -> None:
        try:
            self._dataset = self._minari.create_dataset_from_buffers(
                self.where,
                buffers,
                env=self._env,
                observation_space=self._place.space,
                action_space=self._place.action_space,
                algorithm_name=self._facts["algorithm"],
                description=self._facts["description"],
                requirements=["mepol"],
            )
        except (OSError, ValueError) as fault:
            raise RunError(f"Minari refused the dataset {self.where!r}: {fault}") from fault

    def _buffer(self, episode: Episode) -> Any:
        last = np.arange(len(episode)) == len(episode) - 1
        return self._minari.data_collector.EpisodeBuffer(
            observations=episode.observations.astype(self._place.space.dtype),
            actions=self._place.given(episode.actions),
            rewards=list(episode.rewards),
            terminations=list(last & episode.terminated),
            truncations=list(last & (not episode.terminated)),
            infos={},
        )


class ParquetWriter:
    """Parquet files in the new folder `out`, one per round."""

    def __init__(self, out: str, place: Place, facts: Mapping[str, Any], env: Any = None) -> None:
        self._arrow, self._parquet = optional("pyarrow", "data"), optional("pyarrow.parquet", "data")
        path = Path(out)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise RunError(f"{path} is there already, and nothing is overwritten: choose another --out")
        self.where, self._place, self._facts = str(path), place, dict(facts)
        self._door: Door = output_folder(path)
        self._parts = self._episodes = 0

    def add(self, episodes: Sequence[Episode]) -> None:
        """Write the next file."""
        lengths = [len(episode) for episode in episodes]
        first = np.concatenate([episode.observations[:-1] for episode in episodes])
        after = np.concatenate([episode.observations[1:] for episode in episodes])
        actions = self._place.given(np.concatenate([episode.actions for episode in episodes]))
        last = np.concatenate([np.arange(n) == n - 1 for n in lengths])
        solved = np.repeat([episode.terminated for episode in episodes], lengths)
        columns = {
            "episode": np.repeat(self._episodes + np.arange(len(episodes)), lengths),
            "step": np.concatenate([np.arange(n) for n in lengths]),
            "observation": self._rows(first),
            "action": actions if actions.ndim == 1 else self._rows(actions),
            "reward": np.concatenate([episode.rewards for episode in episodes]),
            "next_observation": self._rows(after),
            "terminated": last & solved,
            "truncated": last & ~solved,
        }
        table = self._arrow.table(columns).replace_schema_metadata({"mepol": json.dumps(self._facts)})
        sink = self._arrow.BufferOutputStream()
        self._parquet.write_table(table, sink)
        self._door.write(f"part-{self._parts:05d}.parquet", sink.getvalue().to_pybytes())
        self._parts += 1
        self._episodes += len(episodes)

    def _rows(self, array: Any) -> Any:
        return self._arrow.FixedSizeListArray.from_arrays(array.reshape(-1), array.shape[1])


FORMATS: dict[str, Callable[..., Writer]] = {"minari": MinariWriter, "parquet": ParquetWriter}


def write_dataset(
    run: Any,
    out: str | Path,
    steps: int,
    *,
    format: str = "minari",
    which: str = "last",
    goal: str | Goal = "",
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """Play `steps` steps of a `mepol.Run`'s policy `which` and write them as a dataset; returns what it is called.

    out: id of a Minari dataset, or a new folder. goal: who gives the rewards (`run_episodes`); without one they are 0.
    progress: called with the steps that are done and their number, after each round.
    """
    if format not in FORMATS:
        raise ConfigError(f"format = {format!r} is not possible: it must be {', '.join(FORMATS)}")
    find_goal(goal, run.domain.env)
    place = Place.of(run.domain, run.config.unit_actions)
    facts = describe_data(run, place, which, goal, seed)
    writer = FORMATS[format](str(out), place, facts, _recoverable(run, place))
    return write_rounds(writer, run_episodes(run, steps, which=which, goal=goal, seed=seed), steps, progress)


def write_rounds(
    writer: Writer, rounds: Iterable[Sequence[Episode]], steps: int, progress: Callable[[int, int], None]
) -> str:
    """Write every round as it comes; a stop says how much there is."""
    done = 0
    try:
        for episodes in rounds:
            writer.add(episodes)
            done += sum(len(episode) for episode in episodes)
            progress(done, steps)
    except KeyboardInterrupt:
        kept = f"{done} of {steps} steps are in {writer.where}" if done else "nothing was written"
        raise MepolError(f"interrupted: {kept}") from None
    return writer.where


def describe_data(run: Any, place: Place, which: str, goal: str | Goal, seed: int) -> dict[str, Any]:
    """What a reader of the data must know, as plain values."""
    named = goal if isinstance(goal, str) else getattr(goal, "__name__", "a function")
    rewards = (
        f"Rewards are 1 where the goal {named} is first reached, which ends the episode, and 0 elsewhere."
        if goal
        else "Rewards are all 0: the policy explored without any; relabel them by a goal."
    )
    low, high = (end.tolist() for end in place.ends)
    if not isinstance(place.action_space, gymnasium.spaces.Box):
        units = f"Actions are whole numbers from 0 to {', '.join(map(str, high))}, whatever the space starts at."
    elif place.unit_actions:
        units = "Actions are in [-1, 1] and stand for the environment's own range (gymnasium.wrappers.RescaleAction)."
    else:
        units = "Actions are in the environment's own units, clipped to its range."
    ends = "Ends that are not in a goal are marked as truncations."
    return {
        "algorithm": "MEPOL" if run.directory.phase.name == "explore" else str(run.config.algo),
        "description": f"Trajectories of an exploration policy in {place.env}. {rewards} {units} {ends}",
        "env": place.env,
        "observation_names": list(place.names),
        "unit_actions": place.unit_actions,
        "action_low": low,
        "action_high": high,
        "which": which,
        "goal": named,
        "seed": seed,
    }


def _recoverable(run: Any, place: Place) -> Any:
    """An environment whose spaces are those of the data, which Minari then can make again; None where there is none."""
    if place.env not in gymnasium.registry:
        return None
    with warnings.catch_warnings():  # Gymnasium's advice to authors of environments
        warnings.simplefilter("ignore", UserWarning)
        env = gymnasium.make(place.env, disable_env_checker=True, **getattr(run.config, "env_kwargs", {}))
        if place.unit_actions and isinstance(env.action_space, gymnasium.spaces.Box):
            ends: tuple[Any, Any] = (-1.0, 1.0)  # plain floats: the environment is stored as JSON
            env = gymnasium.wrappers.RescaleAction(env, *ends)
        env.close()
    same = env.observation_space == place.space and env.action_space == place.action_space
    return env if same else None
