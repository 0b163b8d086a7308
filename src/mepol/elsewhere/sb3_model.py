"""A policy as a model file that Stable-Baselines3 opens itself: `PPO.load`, sb3-contrib's `TRPO.load`, `SAC.load`.

    PPO, TRPO   the same Gaussian, or the same choices: weights and spread copied, input scaling folded into the first
                layer. The value function is untrained. Correlated noise has no place there: it is dropped, and
                `model.mepol` says so.
    SAC         its tanh has no equal among Gaussians (sb3/actors.py), so an exploration goes in through the memory: an
                untrained model of the same widths, and beside it a replay buffer that the policy has filled, which
                `model.load_replay_buffer` opens. A policy that SAC learnt is copied exactly, without a buffer.

`model.mepol` holds the facts of the policy. Everything else has Stable-Baselines3's default settings.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from torch import nn

from mepol.algorithm.categorical import CategoricalPolicy
from mepol.algorithm.policy import GaussianPolicy
from mepol.elsewhere.episodes import Episode
from mepol.elsewhere.network import Place, facts_of
from mepol.errors import ConfigError, PolicyFileError
from mepol.sampling.actors import SquashedPolicy
from mepol.sb3.actors import architecture, write_actor, write_squashed
from mepol.sb3.library import PPO, SAC, TRPO
from mepol.sb3.randomness import drawing_from

Play = Callable[[], Sequence[Episode]]
"""Fresh episodes of the policy that is exported."""
MEMORY = 100_000  # transitions that SAC's memory has room for, or as many as were played


def on_policy_files(name: str, policy: Any, place: Place, play: Play | None) -> dict[str, bytes]:
    """PPO or TRPO (`name`), whose actor is `policy`."""
    if not isinstance(policy, GaussianPolicy | CategoricalPolicy):
        raise PolicyFileError(
            f"a {type(policy).__name__} cannot be exported to sb3-{name}: its tanh has no equal among Gaussians; "
            "use sb3-sac"
        )
    with drawing_from(np.random.SeedSequence(0)):  # the value function's weights
        model = ON_POLICY[name](
            "MlpPolicy", _Spaces(place), policy_kwargs=architecture(policy.widths[1:-1]), device="cpu"
        )
    write_actor(model.policy, policy)
    return {".zip": _saved(model, policy, place)}


def sac_files(policy: Any, place: Place, play: Play | None) -> dict[str, bytes]:
    """SAC with the actor of `policy` where SAC learnt it, else with a memory that `play` fills."""
    if isinstance(policy, CategoricalPolicy):
        raise PolicyFileError("a policy of discrete actions cannot be exported to sb3-sac: SAC has none; use sb3-ppo")
    if not isinstance(policy, SquashedPolicy) and play is None:
        raise ConfigError("sb3-sac needs a run: the policy fills SAC's memory by acting in the run's environment")
    episodes = [] if isinstance(policy, SquashedPolicy) or play is None else play()
    steps = sum(len(episode) for episode in episodes)
    with drawing_from(np.random.SeedSequence(0)):
        model = SAC(
            "MlpPolicy",
            _Spaces(place),
            buffer_size=max(MEMORY, steps),
            learning_starts=0,
            policy_kwargs={"net_arch": list(policy.widths[1:-1]), "activation_fn": nn.ReLU},
            device="cpu",
        )
    if isinstance(policy, SquashedPolicy):
        write_squashed(model.actor, policy)
        return {".zip": _saved(model, policy, place)}
    _remember(model, episodes, place)
    memory = io.BytesIO()
    model.save_replay_buffer(memory)
    return {".zip": _saved(model, policy, place), ".replay.pkl": memory.getvalue()}


def _remember(model: SAC, episodes: Sequence[Episode], place: Place) -> None:
    """Store the episodes, actions in [-1, 1] as SAC has them; an end that is not in a goal is a time limit."""
    assert model.replay_buffer is not None
    low, high = place.ends
    for episode in episodes:
        actions = 2 * (np.clip(episode.actions, low, high) - low) / (high - low) - 1
        last = len(episode) - 1
        for t in range(len(episode)):
            before, after = episode.observations[t : t + 1], episode.observations[t + 1 : t + 2]
            done, info = np.array([t == last]), {"TimeLimit.truncated": t == last and not episode.terminated}
            model.replay_buffer.add(before, after, actions[t : t + 1], episode.rewards[t : t + 1], done, [info])


def _saved(model: Any, policy: Any, place: Place) -> bytes:
    model.mepol = facts_of(policy, place)
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


class _Spaces(gymnasium.Env[Any, Any]):
    """Two spaces, which is all that a model asks of an environment before it learns."""

    def __init__(self, place: Place) -> None:
        if isinstance(place.action_space, Box) and not place.action_space.is_bounded():
            raise ConfigError(
                "Stable-Baselines3 needs a bounded action space: export the run, which knows its own, not a policy file"
            )
        self.observation_space, self.action_space = place.space, place.action_space


ON_POLICY: dict[str, Any] = {"ppo": PPO, "trpo": TRPO}
