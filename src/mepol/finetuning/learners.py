"""Stable-Baselines3's learners behind one door: collect an iteration's steps, learn from them, show the state.

Each iteration restarts all sub-environments, as the libraries that the paper used do, and every random draw in it
comes from the seed it is given. So a state between two iterations is networks, moments and replay, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from torch import nn

from mepol.algorithm.policy import one_thread
from mepol.finetuning.config import FinetuneConfig
from mepol.finetuning.entropy import EntropyTerm, Paid
from mepol.finetuning.intrinsic.pseudocount import Pseudocount
from mepol.finetuning.intrinsic.reward import ShapedReplay, Weights
from mepol.finetuning.intrinsic.smm import SkillVectorEnv, Smm
from mepol.finetuning.start import Start
from mepol.rewards.icm import Icm
from mepol.rewards.reward import IntrinsicReward
from mepol.runs.memory import Memory
from mepol.runs.state import State
from mepol.sampling.actors import SquashedPolicy
from mepol.sampling.collect import Actor
from mepol.sb3.actors import architecture, in_unit_box, read_actor, read_squashed, write_actor
from mepol.sb3.adapter import BatchedVecEnv, Episode
from mepol.sb3.library import ActorCriticPolicy, ReplayBuffer
from mepol.sb3.ppo import make_ppo
from mepol.sb3.rollout import fill_replay, fill_rollout, judge_of, ready, squashed
from mepol.sb3.sac import make_sac
from mepol.sb3.settings import PpoSettings, SacSettings, TrpoSettings
from mepol.sb3.trpo import make_trpo


class OnPolicy:
    """TRPO or PPO, as `make` gives them, whose actor starts as `start`."""

    def __init__(
        self,
        env: BatchedVecEnv,
        config: FinetuneConfig,
        start: Start,
        make: Callable[[BatchedVecEnv, FinetuneConfig, dict[str, Any]], Any],
    ) -> None:
        self._env = env
        self._value_target = getattr(config, config.section).value_target
        self.model: Any = make(env, config, architecture(start.widths[1:-1]))
        self._actor: ActorCriticPolicy = self.model.policy
        write_actor(self._actor, start)
        ready(self.model)
        self._entropy: EntropyTerm | None = None
        self._paid: Paid | None = None

    def regularise(self, entropy: EntropyTerm) -> None:
        """Learn by the entropy of the visited states too, from now on."""
        self._entropy = entropy

    @property
    def state_entropy(self) -> float | None:
        """Of the last batch, in nats; None where it is not rewarded."""
        return None if self._paid is None else self._paid.entropy

    def collect(self, seeds: list[int]) -> None:
        """Fill the rollout buffer with one horizon of each sub-environment."""
        buffer = self.model.rollout_buffer
        played = fill_rollout(buffer, self._env, self._actor, seeds, self._value_target)
        if self._entropy is not None:
            self._paid = self._entropy.pay(buffer, played, judge_of(self._actor))

    def learn(self, iteration: int) -> None:
        """One update from the rollout buffer."""
        with one_thread():
            if self._entropy is not None and self._paid is not None:
                self._entropy.add_to(self.model.rollout_buffer, self._paid, iteration)
            self.model.train()

    def episodes(self) -> list[Episode]:
        """What has ended since the last call."""
        return self._env.take_episodes()

    def state(self) -> State:
        """Actor, critic and their optimiser, and what the entropy reward has learnt."""
        own = State({"policy": self._actor}, {"policy": self._actor.optimizer})
        return own if self._entropy is None else own.beside(self._entropy.state())

    def policy(self) -> Start:
        """The actor."""
        return read_actor(self._actor)


class OffPolicy:
    """SAC, alone or with the intrinsic reward `method`."""

    state_entropy = None

    def __init__(
        self, env: BatchedVecEnv, config: FinetuneConfig, method: IntrinsicReward | None, state_dim: int
    ) -> None:
        self._env, self._config, self.method, self._state_dim = env, config, method, state_dim
        own = config.sac
        settings = SacSettings(own.learning_rate, own.discount, own.batch, own.buffer, own.tau)
        assert isinstance(env.action_space, Box)
        memory = ReplayBuffer if self.method is None else ShapedReplay
        self.model = make_sac(env, env.action_space, settings, config.hidden, memory)
        if isinstance(self.replay, ShapedReplay) and self.method is not None:
            weights = config.intrinsic
            self.replay.shape(self.method, Weights(weights.extrinsic_weight, weights.intrinsic_weight))
        ready(self.model)
        self.memory = Memory(self.replay)

    @property
    def replay(self) -> ReplayBuffer:
        """SAC's memory."""
        assert self.model.replay_buffer is not None
        return self.model.replay_buffer

    def warm_up(self, explorer: Actor | None, seed: np.random.SeedSequence) -> int:
        """Play what explored, or the untrained actor, into the memory; returns the steps that took."""
        per_lane = -(-self._config.sac.warmup // self._env.num_envs)
        reset_seed, noise_seed = seed.spawn(2)
        act = squashed(self.model.actor)
        if explorer is not None:
            assert isinstance(self._env.action_space, Box)
            act = in_unit_box(explorer, self._state_dim, self._env.num_envs, self._env.action_space, noise_seed)
        fill_replay(self.replay, self._env, act, per_lane, reset_seed.generate_state(self._env.num_envs).tolist())
        return per_lane * self._env.num_envs

    def collect(self, seeds: list[int]) -> None:
        """Store one horizon of each sub-environment."""
        fill_replay(self.replay, self._env, squashed(self.model.actor), self._config.horizon, seeds)

    def learn(self, iteration: int) -> None:
        """As many updates as the settings say."""
        if self._config.sac.updates:
            with one_thread():
                self.model.train(self._config.sac.updates, self._config.sac.batch)

    def episodes(self) -> list[Episode]:
        """What has ended since the last call."""
        return self._env.take_episodes()

    def state(self) -> State:
        """Actor, critics, temperature, the intrinsic reward's models, and all their optimisers."""
        model = self.model
        modules: dict[str, nn.Module] = {"policy": model.policy}
        optimisers = {"actor": model.actor.optimizer, "critic": model.critic.optimizer}
        if model.ent_coef_optimizer is not None:
            optimisers["temperature"] = model.ent_coef_optimizer
        if self.method is not None:
            modules["intrinsic"] = self.method
            optimisers |= {f"intrinsic.{name}": o for name, o in self.method.optimisers().items()}
        assert model.log_ent_coef is not None
        return State(modules, optimisers, {"log_temperature": model.log_ent_coef})

    def policy(self) -> SquashedPolicy:
        """The actor, with SMM's skills if it has any."""
        assert isinstance(self._env.action_space, Box)
        skills = self.method.skills if isinstance(self.method, Smm) else 0
        return read_squashed(self.model.actor, self._env.action_space, skills)


def _trpo(env: BatchedVecEnv, config: FinetuneConfig, networks: dict[str, Any]) -> Any:
    settings = config.trpo
    return make_trpo(
        env,
        TrpoSettings(
            steps=config.horizon,
            kl=settings.kl,
            discount=settings.discount,
            gae_lambda=settings.gae_lambda,
            cg_steps=settings.cg_steps,
            cg_damping=settings.cg_damping,
            backtrack=settings.backtrack,
            max_backtracks=settings.max_backtracks,
            value_rate=settings.value_rate,
            value_passes=settings.value_passes,
            value_batch=-(-settings.steps // settings.value_minibatches),
            fisher_every=settings.fisher_every,
        ),
        networks,
    )


def _ppo(env: BatchedVecEnv, config: FinetuneConfig, networks: dict[str, Any]) -> Any:
    settings = config.ppo
    return make_ppo(
        env,
        config.horizon,
        PpoSettings(
            rate=settings.learning_rate,
            clip=settings.clip,
            discount=settings.discount,
            trace=settings.gae_lambda,
            passes=settings.passes,
            minibatch=max(-(-settings.steps // settings.minibatches), 2),
            kl=settings.target_kl,
        ),
        networks,
    )


# --- The table ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Learner:
    """One that can learn a task.

    make(env, config, start, S): the learner; it draws initial weights from the global generators. `start` is the
    policy that an on-policy one begins as, S the state's size without what `view` appends.
    view(env, config): what it sees of the task's environment.
    """

    name: str
    make: Callable[[BatchedVecEnv, FinetuneConfig, Start, int], OnPolicy | OffPolicy]
    view: Callable[[Any, FinetuneConfig], Any] = lambda env, config: env


def _on(make: Callable[..., Any]) -> Callable[..., OnPolicy]:
    return lambda env, config, start, state_dim: OnPolicy(env, config, start, make)


def _off(method: Callable[[FinetuneConfig, int, int], IntrinsicReward | None]) -> Callable[..., OffPolicy]:
    def make(env: BatchedVecEnv, config: FinetuneConfig, _: Start, state_dim: int) -> OffPolicy:
        reward = method(config, state_dim, int(np.prod(env.action_space.shape or ())))
        return OffPolicy(env, config, reward, state_dim)

    return make


LEARNERS: dict[str, Learner] = {
    learner.name: learner
    for learner in (
        Learner("trpo", _on(_trpo)),
        Learner("ppo", _on(_ppo)),
        Learner("sac", _off(lambda config, s, a: None)),
        Learner(
            "smm",
            _off(lambda config, s, a: Smm(s, config.intrinsic.skills, config.intrinsic.skill_sign)),
            view=lambda env, config: SkillVectorEnv(env, config.intrinsic.skills),
        ),
        Learner("icm", _off(lambda config, s, a: Icm(s, a))),
        Learner("pseudocount", _off(lambda config, s, a: Pseudocount(s, config.intrinsic.count_scale))),
    )
}
"""Who can learn; a new one is a line here and its name in `config.Algo`."""
