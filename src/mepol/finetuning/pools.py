"""Start states that cannot be written down, only found: bodies that have fallen over in random play.

A pool is 100 states (100, nq + nv) float64, velocities kept, found by one seed and stored with the package: the
tasks start alike on every machine and with every version of the physics. `python -m mepol.finetuning.pools` finds them
again, and `find` is the whole recipe.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

from mepol.envs.batched import Array, BatchedEnv
from mepol.envs.physics import MujocoVectorEnv
from mepol.errors import EnvironmentFault
from mepol.finetuning.goals import Reached, world_z
from mepol.runs.files import write_bytes

SIZE = 100
SEED = 2021
MIN_STEPS = 100  # a state counts only after more than these (release)
MAX_STEPS = 5000  # then a search starts anew (release)
LOW_ANT = 0.3  # metres, torso height (release)
LOW_HUMANOID = 1.0  # metres, torso height (release)


def ant_on_its_back(states: Array) -> Reached:
    """Torso below 0.3 m with its own z axis pointing down."""
    return np.asarray((states[:, 2] < LOW_ANT) & (world_z(states)[2] < 0))


def humanoid_on_the_ground(states: Array) -> Reached:
    """Torso below 1 m."""
    return np.asarray(states[:, 2] < LOW_HUMANOID)


def find(env: BatchedEnv, fallen: Callable[[Array], Reached], *, seed: int, min_steps: int = MIN_STEPS) -> Array:
    """(M, S) for each sub-environment the first state past `min_steps` of uniformly random play that is `fallen`.

    Sub-environment m draws starts and actions from its own stream, so that it does not matter to it how many
    others there are. One that finds nothing in 5000 steps, or diverges, starts again.
    """
    rngs = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(env.num_envs)]
    env.reseed(rngs)
    states, _ = env.reset()
    found = np.zeros_like(states)
    missing = np.ones(env.num_envs, dtype=bool)
    age = np.zeros(env.num_envs, dtype=np.int64)
    low, high = env.single_action_space.low, env.single_action_space.high  # type: ignore[attr-defined]
    while missing.any():
        actions = np.stack([rng.uniform(low, high) for rng in rngs])
        states, _, _, truncated, _ = env.step(actions)
        age += 1
        hit = missing & ~truncated & (age > min_steps) & fallen(states)
        found[hit] = states[hit]
        missing &= ~hit
        again = truncated | (age >= MAX_STEPS)
        if again.any():
            env.reset(options={"reset_mask": again})
            age[again] = 0
    return found


def load(name: str) -> Array:
    """(100, nq + nv) the stored pool called `name`."""
    try:
        with as_file(files("mepol.finetuning") / "data" / f"{name}.safetensors") as path:
            return np.asarray(safetensors.numpy.load_file(path)["states"], dtype=np.float64)
    except (OSError, KeyError, safetensors.SafetensorError) as fault:
        raise EnvironmentFault(
            f"the start states {name!r} are missing from this installation ({fault}); "
            "python -m mepol.finetuning.pools finds them again"
        ) from fault


def place_from(pool: Array, env: MujocoVectorEnv, i: int, rng: np.random.Generator) -> None:
    """Put simulation i in a state of the pool, each as likely as another."""
    state = pool[rng.integers(len(pool))]
    env.place(i, state[: env.model.nq], state[env.model.nq :])


def main() -> None:
    """Find both pools again and store them where `load` reads them, or in the folder given."""
    from mepol.envs.ant import AntVectorEnv
    from mepol.envs.humanoid import HumanoidVectorEnv

    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "data"
    searches: dict[str, tuple[BatchedEnv, Callable[[Array], Reached]]] = {
        "humanoid_up": (HumanoidVectorEnv(SIZE), humanoid_on_the_ground),
        "ant_escape": (AntVectorEnv(SIZE), ant_on_its_back),
    }
    for name, (env, fallen) in searches.items():
        states = find(env, fallen, seed=SEED)
        write_bytes(folder / f"{name}.safetensors", safetensors.numpy.save({"states": states}))
        env.close()


if __name__ == "__main__":
    main()
