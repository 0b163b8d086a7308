"""The front door's verbs: explore, resume, evaluate, finetune, open; what the command line does, from Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mepol.console.places import place
from mepol.console.progress import noting, telling
from mepol.envs.domain import Domain
from mepol.errors import ConfigError
from mepol.evaluation.assess import Assessment, assess
from mepol.exploration import drive as exploring
from mepol.exploration.asked import configured
from mepol.exploration.config import ExploreConfig
from mepol.exploration.explorers import kind_of
from mepol.exploration.presets import PRESETS, Preset
from mepol.exploration.presets import preset as find_preset
from mepol.exploration.workshop import Given, domain_of, open_workshop, protocol_of, survey_of
from mepol.finetuning.asked import after, asked_task, measured_by
from mepol.finetuning.config import FinetuneConfig
from mepol.finetuning.rows import FINETUNE
from mepol.finetuning.tasks import TASKS, Task
from mepol.run import Run
from mepol.runs.callbacks import Callback
from mepol.runs.directory import RunDirectory
from mepol.runs.machine import as_before, threads_in_force
from mepol.runs.policies import load_policy
from mepol.runs.start import SCRATCH, load_start
from mepol.runs.streams import Stream, stream
from mepol.runs.unused import require_unused
from mepol.runs.zoo import run_place
from mepol.settings import GIVEN, require_handed, with_settings

Place = str | Path


def explore(
    what: Any = None,
    *,
    fast: bool = False,
    out: Place | None = None,
    seed: int = 0,
    epochs: int | None = None,
    features: str | Callable[..., Any] | None = None,
    callbacks: Sequence[Callback] = (),
    env_kwargs: dict[str, Any] | None = None,
    progress: bool = True,
    **settings: Any,
) -> Run:
    """Learn one policy that covers the states of `what` evenly, without any reward.

    what: a preset (`mepol.presets()`), a Gymnasium id, a `gymnasium.Env` class, a factory () -> Env, or a function
    n -> VectorEnv. fast: settings that reach the same entropy in a fraction of the time, instead of the paper's;
    without a preset they are the default, and `paper_rule=True` gives the paper's.
    out: new directory of the run; by default a temporary one, which is named. features: what the entropy is of, as
    text (`"x,y"`, `"0:7"`) or as a function (N, S) states -> (N, D). callbacks: called after each epoch
    (`mepol.StopAt`). settings: any setting by its name (`k=10`, `horizon=400`, `hidden=(64, 64)`, or `init="zoo:ant"`,
    a run to go on from), and as objects `rule`, `policy`, `explorer`, `objective` (docs/guide/extending.md), `sampler`
    (docs/guide/scale.md). `envs`, a TOML file or tables, are several environments beside `what` or alone, and `risk` is
    their alpha (docs/method/worlds.md).

    Whatever stops it, `mepol.resume(path)` goes on from its last checkpoint, to the same bits.

    >>> import mepol
    >>> run = mepol.explore("gridworld", fast=True, epochs=2, horizon=60, out="runs/first", progress=False)
    >>> run.metrics["epoch"].tolist()
    [0, 1, 2]
    """
    config, given = configured(what, fast, seed, epochs, features, env_kwargs, settings)
    length = kind_of(config, given).length(config)
    with place(out, "explore", progress) as path, telling("epoch", length, shown=progress) as report:
        tell = noting if progress else lambda _: None
        run = exploring.explore(config, path, given=given, callbacks=tuple(callbacks), report=report, tell=tell)
    return Run(run, given)


def resume(
    path: Place | Run,
    *,
    length: int | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    env: Any = None,
    goal: Callable[..., Any] | None = None,
    **objects: Any,
) -> Run:
    """Continue a run of either phase to its end, or to `length` epochs or iterations; equal to one never stopped.

    env, goal, and objects (`features`, `policy`, `rule`, `explorer`, `objective`, `sampler`): what was handed in when
    the run was made and no file holds. `k` and `eps` may be others from here on, where coinciding
    particles ended an exploration.

    >>> import mepol
    >>> mepol.resume("runs/gridworld", length=3, progress=False).metrics["epoch"].tolist()
    [0, 1, 2, 3]
    """
    directory = path.directory if isinstance(path, Run) else RunDirectory.open(Path(path))
    changes = {name: objects.pop(name) for name in exploring.CHANGEABLE if name in objects}
    given = path.given if isinstance(path, Run) and env is None else Given(env=env, **objects)
    handed: Any = given
    if goal is not None:
        config = directory.config
        require_handed("env", config.env, given.env)
        handed = Task(given.env or config.env, goal, config.horizon)
    turn, more = directory.phase.turn, {"changes": changes} if changes else {}
    total = directory.phase.length(directory.config, given) if length is None else length
    with telling(turn, total, shown=progress) as report:
        directory = directory.phase.resume(
            directory.path, length=length, given=handed, callbacks=tuple(callbacks), report=report, **more
        )
    return Run(directory, given)


def open(path: Place, **objects: Any) -> Run:
    """The run of either phase in the directory `path`, or a shipped one, `zoo:ant`; nothing in it is executed.

    objects: what was handed in when it was made and no file holds (`env`, `features`, `policy`).

    >>> import mepol
    >>> mepol.open("runs/gridworld").finished
    True
    """
    return Run.open(path, Given(**objects))


def evaluate(
    run_or_policy: Any,
    what: Any = None,
    *,
    which: str = "last",
    trajectories: int = 100,
    seed: int = 0,
    **settings: Any,
) -> Assessment:
    """Measure on fresh trajectories what a run's policy covers, or any policy in the environment `what`.

    run_or_policy: a run, its directory, a policy file, something with `act`, or a function of (M, S) observations that
    gives (M, A) actions. what: a preset, an id or an environment, as in `explore`; a run has its own. settings: of the
    protocol (`k`, `horizon`, `pairs`, `horizons`, `mixing_threshold`); without a run those of an exploration
    (`features`), too.

    >>> import mepol
    >>> mepol.evaluate("runs/gridworld", trajectories=5).evaluation.particles
    300
    """
    if isinstance(run_or_policy, str | Path):
        is_file = Path(run_or_policy).is_file()
        run_or_policy = load_policy(run_or_policy) if is_file else Run.open(run_or_policy)
    if isinstance(run_or_policy, Run):
        return run_or_policy.evaluate(which=which, trajectories=trajectories, seed=seed, **settings)
    if what is None:
        raise ConfigError("a policy alone has no environment: say what it acts in, mepol.evaluate(policy, 'ant')")
    asked = {name: settings.pop(name) for name in ("pairs", "horizons", "mixing_threshold") if name in settings}
    config, given = configured(what, False, seed, None, settings.pop("features", None), None, settings)
    with threads_in_force(config.machine), open_workshop(config, given) as workshop:
        protocol = dataclasses.replace(protocol_of(workshop.config), trajectories=trajectories, **asked)
        env = workshop.env(trajectories)
        return assess(run_or_policy, env, workshop.domain, protocol, seed=stream(seed, Stream.FRESH))


def finetune(
    task_or_goal: Any = None,
    *,
    init: Any = None,
    env: Any = None,
    out: Place | None = None,
    seed: int = 0,
    iterations: int | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    **settings: Any,
) -> Run:
    """Learn a task from what an exploration left, or from scratch.

    task_or_goal: a task (`"ant-jump"`), a function (M, S) states -> (M,) bool, true where the goal is reached, or an
    environment (`"Pendulum-v1"`, a class), whose own reward is then learnt; None for the own reward of `env`.
    init: a run, its directory, a policy or a policy file; None for scratch. env: where a goal of one's own is to be
    reached; by default where `init` explored. settings: any setting by its name (`algo="sac"`, `horizon=400`,
    `**{"trpo.kl": 0.01}`).

    >>> import mepol
    >>> goal = lambda states: states[:, 0] > -3
    >>> settings = {"horizon": 40, "trpo.steps": 80, "hidden": (8,), "progress": False}
    >>> task = mepol.finetune(goal, init="runs/gridworld", iterations=1, out="runs/task", **settings)
    >>> task.metrics["iteration"].tolist()
    [0, 1]
    """
    start, name = _start(init, str(settings.get("which", "last")))
    explored = init if isinstance(init, Run) else _run_in(init)
    config, task = asked_task(
        _place_of_preset(task_or_goal),
        _place_of_preset(env),
        explored_in=explored and (explored.given.env or explored.config.env or explored.domain.env),
        explored_for=explored.config.horizon if explored else None,
        horizon=settings.get("horizon"),
        kwargs=settings.get("env_kwargs", explored and explored.config.env_kwargs),
    )
    changes = {"seed": seed, "init": name, **settings}
    config = with_settings(config, changes if iterations is None else {**changes, "iterations": iterations})
    told = telling("iteration", config.iterations, shown=progress)
    with place(out, "finetune", progress) as path, told as report:
        run = begin_finetuning(
            config, path, start=start, task=task, explored=explored, callbacks=tuple(callbacks), report=report
        )
    given = explored.given if explored else Given()
    return Run(run, given if task is None else dataclasses.replace(given, env=task.env))


def begin_finetuning(
    config: FinetuneConfig,
    path: Path,
    *,
    start: Any = None,
    task: Task | None = None,
    explored: Run | None = None,
    like: ExploreConfig | None = None,
    callbacks: Sequence[Callback] = (),
    report: Any = lambda _: None,
) -> RunDirectory[Any, Any]:
    """A new fine-tuning run, with what the exploration before it says of the domain and of how it is measured.

    like: settings of an exploration that say so where there was none; by default the paper's for its own tasks.
    """
    require_unused(path, FINETUNE.heads)
    with as_before():
        from mepol.finetuning.drive import finetune as learn  # needs Stable-Baselines3

    if start is None:
        start = load_start(config.init, config.which)
    if explored is None:
        explored = _run_in(config.init)
    if config.task in TASKS and like is None:
        like = PRESETS[TASKS[config.task].explorer].config
    if explored is not None:
        config = after(config, explored.config, explored.protocol)
    elif like is not None:
        config = measured_by(config, protocol_of(like))

    def domain(env: Any) -> str:
        if explored is not None:
            return explored.domain.to_json()
        if like is not None:
            return domain_of(env, like, survey=survey_of(lambda _: env, like)).to_json()
        return Domain.of(env, name=config.env or config.task).to_json()

    return learn(config, path, start=start, task=task, domain=domain, callbacks=callbacks, report=report)


def presets() -> dict[str, str]:
    """Names of the presets, with what each is.

    >>> import mepol
    >>> "gridworld" in mepol.presets()
    True
    """
    return {name: entry.summary for name, entry in PRESETS.items()}


def preset(name: str) -> Preset:
    """A preset: its settings, `config`, and where each value comes from, `sources`.

    >>> import mepol
    >>> mepol.preset("ant").config.horizon, mepol.preset("ant").sources["k"]
    (500, 'paper, table MEPOL Parameters')
    """
    return find_preset(name)


# --- What a user hands in ---------------------------------------------------------------------------------------------


def _start(init: Any, which: str) -> tuple[Any, str]:
    """What acts in `init`, of a run its policy `which`, and its name."""
    if init is None:
        return None, SCRATCH
    if isinstance(init, Run):
        return init.load(which), str(init.path)
    if isinstance(init, str | Path):
        return load_start(str(init), which), str(init)
    return init, f"{GIVEN}{type(init).__name__}"


def _run_in(init: Any) -> Run | None:
    """The run in the directory `init`, or that of the policy file `init`; None for anything else."""
    if not isinstance(init, str | Path):
        return None
    found = run_place(init)
    place = found.parent if found.is_file() else found
    return Run.open(place) if (place / "config.json").is_file() else None


def _place_of_preset(what: Any) -> Any:
    """The environment that a preset's name stands for; anything else is itself."""
    return PRESETS[what].config.env if isinstance(what, str) and what in PRESETS else what
