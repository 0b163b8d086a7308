"""A run of either phase as an object: where it lies, what it learnt, what it measured, and how it looks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import mepol.exploration.rows
import mepol.finetuning.rows  # noqa: F401  with these two imports the phases make their directories known
from mepol.algorithm.batch import Batch
from mepol.elsewhere.export import export_run
from mepol.envs.domain import Domain
from mepol.errors import MepolError, PolicyFileError
from mepol.evaluation.assess import Assessment, Protocol
from mepol.evaluation.yardsticks import find_yardstick
from mepol.exploration.workshop import Given
from mepol.exploration.worlds.anew import assess_anew
from mepol.runs.directory import RunDirectory
from mepol.runs.domain import load_domain
from mepol.runs.files import write_bytes
from mepol.runs.machine import threads_in_force
from mepol.runs.policies import load_policy
from mepol.runs.streams import Stream, stream
from mepol.runs.tables import columns_of
from mepol.sampling.actors import MeanActor, check_fit
from mepol.sampling.collect import Actor, collect

if TYPE_CHECKING:  # figures load Matplotlib, for which only who draws has to wait
    from mepol.figures.summary import Summary


class Run:
    """A run directory of either phase, opened.

    >>> import mepol
    >>> run = mepol.open("runs/gridworld")
    >>> run
    Run('runs/gridworld', explore, seed 0, finished)
    >>> run.path.name, run.finished, run.config.horizon, run.domain.names
    ('gridworld', True, 60, ('x', 'y'))
    >>> run.policy.widths == run.best.widths == run.initial.widths
    True
    >>> run.metrics["epoch"].tolist(), sorted(run.metrics)[:3]
    ([0, 1, 2], ['batches', 'cells', 'coinciding'])
    """

    def __init__(self, directory: RunDirectory[Any, Any], given: Any = None) -> None:
        """given: objects that no file holds: a Given of an exploration, the Task of a fine-tuning."""
        self.directory, self.given = directory, given or Given()

    @staticmethod
    def open(path: str | Path, given: Any = None) -> Run:
        """The run in the directory `path`.

        >>> import mepol
        >>> mepol.Run.open("runs/gridworld").finished
        True
        """
        return Run(RunDirectory.open(path), given)

    def __repr__(self) -> str:
        state = "finished" if self.finished else "unfinished"
        return f"Run({str(self.path)!r}, {self.directory.phase.name}, seed {self.config.seed}, {state})"

    @property
    def path(self) -> Path:
        """Its directory."""
        return self.directory.path

    @property
    def config(self) -> Any:
        """Its settings."""
        return self.directory.config

    @property
    def finished(self) -> bool:
        """Whether it has reached its end."""
        return self.directory.is_finished

    @property
    def domain(self) -> Domain:
        """What it knows of its environment: names, features, grid, ceiling."""
        return load_domain(self.directory, self.given)

    # --- what it learnt ----------------------------------------------------------------------------------------------

    @property
    def policy(self) -> Any:
        """The newest policy."""
        return self.load("last")

    @property
    def best(self) -> Any:
        """The policy with the highest evaluation index (fine-tuning: average return) so far."""
        return self.load("best")

    @property
    def initial(self) -> Any:
        """The policy that it started from."""
        return self.load("initial")

    def load(self, which: str = "last") -> Any:
        """The policy `last`, `best` or `initial`. A run that was made before `best` was kept has its last instead.

        >>> import mepol
        >>> mepol.open("runs/gridworld").load("initial").widths
        (2, 16, 16, 2)
        """
        path = self.directory.policy_path(which)
        if which == "best" and not path.exists():
            path = self.directory.policy_path("last")
        if which == "initial" and not path.exists():
            raise PolicyFileError(f"{self.path} began from scratch: there is no policy that it started from")
        make = getattr(self.given, "policy", None)
        into = None if make is None else make(self.domain.state_dim, self.domain.action_dim)
        return load_policy(path, into)

    def export(self, to: str, path: str | Path | None = None, *, which: str = "last", **options: Any) -> list[Path]:
        """Write the policy `which` for another program: `onnx`, `numpy`, `sb3-ppo` ... (docs/guide/elsewhere.md).

        >>> import mepol
        >>> [path.name for path in mepol.open("runs/gridworld").export("numpy")]
        ['policy.py', 'policy.npz']
        """
        return export_run(self, to, path, which=which, **options)

    # --- what it measured -------------------------------------------------------------------------------------------

    @property
    def metrics(self) -> dict[str, NDArray[Any]]:
        """metrics.csv as columns; NaN where something was not measured."""
        return columns_of(self.directory.rows(), self.directory.phase.metrics.columns)

    def frame(self) -> Any:
        """metrics.csv as a pandas DataFrame, where pandas is installed.

        >>> import mepol
        >>> len(mepol.open("runs/gridworld").frame())
        3
        """
        try:
            import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError as fault:
            raise MepolError("a frame needs pandas, which is not installed: pip install pandas") from fault
        return pandas.DataFrame(self.metrics)

    def evaluate(self, *, which: str = "last", trajectories: int = 100, seed: int = 0, **protocol: Any) -> Assessment:
        """Measure the policy `which` on fresh trajectories, none of which was used in training.

        protocol: `k`, `eps`, `horizon`, `pairs`, `horizons`, `mixing_threshold`, `features`, where they are to differ
        from the run's own.

        >>> import mepol
        >>> found = mepol.open("runs/gridworld").evaluate(which="best", trajectories=5)
        >>> found.evaluation.particles, found.evaluation.index < 4.61
        (300, True)
        """
        changes = {name: value for name, value in protocol.items() if value is not None}
        domain = self.domain.of_features(changes.pop("features", None))
        wanted = dataclasses.replace(self.protocol, trajectories=trajectories, **changes)
        return assess_anew(self.directory, self.given, domain, self.load(which), wanted, seed)

    def yardstick(self, name: str, *, which: str = "last", seed: int = 0) -> dict[str, float]:
        """Measure the policy `which` by a yardstick of the field: `metra`, `single-trial` (docs/method/evaluation.md).

        >>> import mepol
        >>> mepol.open("runs/gridworld").yardstick("single-trial").keys()
        dict_keys(['single_trial_entropy'])
        """
        stick, actor = find_yardstick(name), self.load(which)
        actors = {"": actor, **({"_mean_actions": MeanActor(actor)} if stick.also_mean_actions else {})}
        found: dict[str, float] = {}
        with self.working(stick.trajectories) as env:
            for suffix, acting in actors.items():
                batch = self._collect(acting, env, stick.horizon, seed)
                measured = stick.measure(batch, self.domain, self.protocol)
                found |= {f"{measure}{suffix}": value for measure, value in measured.items()}
        return found

    @property
    def protocol(self) -> Protocol:
        """How the run itself measures: its horizon, k, eps and trajectories.

        >>> import mepol
        >>> mepol.open("runs/gridworld").protocol.horizon
        60
        """
        return self.directory.phase.protocol(self.config)

    def states(
        self, *, which: str = "last", trajectories: int = 20, horizon: int | None = None, seed: int = 0
    ) -> NDArray[np.float64]:
        """(M, T+1, S) states that the policy `which` visits on fresh trajectories, s_0 first.

        >>> import mepol
        >>> mepol.open("runs/gridworld").states(trajectories=3).shape
        (3, 61, 2)
        """
        with self.working(trajectories) as env:
            return self.rollout(env, which=which, horizon=horizon, seed=seed).states

    def rollout(self, env: Any, *, which: str = "last", horizon: int | None = None, seed: int = 0) -> Batch:
        """One fresh trajectory of the policy `which` from each copy of the run's environment in `env`.

        >>> import mepol
        >>> run = mepol.open("runs/gridworld")
        >>> with run.working(3) as env:
        ...     run.rollout(env).actions.shape
        (3, 60, 2)
        """
        actor = self.load(which)
        check_fit(actor, self.domain.state_dim, self.domain.action_space, self.domain.env)
        return self._collect(actor, env, horizon, seed)

    def _collect(self, actor: Actor, env: Any, horizon: int | None, seed: int) -> Batch:
        own, limit = stream(seed, Stream.FRESH, 1), self.config.machine.env_time_limit
        return collect(actor, env, horizon or self.protocol.horizon, seed=own, time_limit=limit)

    @contextmanager
    def working(self, num_envs: int) -> Iterator[Any]:
        """`num_envs` copies of the run's environment, with the run's threads in force.

        >>> import mepol
        >>> with mepol.open("runs/gridworld").working(3) as env:
        ...     env.num_envs
        3
        """
        environments = self.directory.phase.environments(self.config, self.given)
        with threads_in_force(self.config.machine), environments:
            env = environments.of(num_envs)
            self.domain.require_fit(env)
            yield env

    # --- how it looks -----------------------------------------------------------------------------------------------

    def figures(self) -> tuple[Path, ...]:
        """Draw its figures from its files alone; returns where they are.

        >>> import mepol
        >>> [path.name for path in mepol.open("runs/gridworld").figures()]
        ['entropy.png', 'coverage.png']
        """
        return self.summary().figures

    def summary(self) -> Summary:
        """Its figures, and the first, best and last measured policy.

        >>> import mepol
        >>> mepol.open("runs/gridworld").summary().last.epoch
        2
        """
        from mepol.figures.summary import summarise

        return summarise(self.directory)

    def video(
        self,
        path: str | Path | None = None,
        *,
        which: str = "last",
        episodes: int = 1,
        steps: int | None = None,
        seed: int = 0,
        progress: Any = lambda done, total: None,
    ) -> Path:
        """Film the policy `which` beside the one it started from; by default into figures/policy.mp4.

        >>> import mepol
        >>> mepol.open("runs/gridworld").video(steps=2).name
        'policy.mp4'
        """
        from mepol.figures.video import film_run

        data = film_run(
            self,
            which=which,
            episodes=episodes,
            steps=steps,
            seed=seed,
            suffix=".mp4" if path is None else Path(path).suffix,
            progress=progress,
        )
        return self.directory.door.write("figures/policy.mp4", data) if path is None else write_bytes(Path(path), data)

    def report(self, out: str | Path | None = None) -> Path:
        """Write its page, one HTML file that needs nothing beside it, into the folder `out`, by default its figures/.

        >>> import mepol
        >>> mepol.open("runs/gridworld").report().name
        'report.html'
        """
        from mepol.report.page import write_report

        return write_report([self.directory], out)
