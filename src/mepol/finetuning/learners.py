"""Stable-Baselines3's learners behind one door: collect an iteration's steps, learn from them, show the state.

Each iteration restarts all sub-environments, as the libraries that the paper used do, and every random draw in it
comes from the seed it is given. So a state between two iterations is networks, moments and replay, nothing else.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from torch import Tensor, nn

from mepol.algorithm.policy import GaussianPolicy, one_thread
from mepol.errors import CheckpointError
from mepol.finetuning.config import FinetuneConfig
from mepol.finetuning.intrinsic.icm import Icm
from mepol.finetuning.intrinsic.pseudocount import Pseudocount
from mepol.finetuning.intrinsic.reward import IntrinsicReward, ShapedReplay, Weights
from mepol.finetuning.intrinsic.smm import Smm
from mepol.runs.files import require_file
from mepol.runs.tensors import is_intact, tensor_bytes
from mepol.runs.state import State
from mepol.sampling.actors import SquashedPolicy
from mepol.sb3.actors import architecture, in_unit_box, read_actor, read_squashed, write_actor
from mepol.sb3.adapter import BatchedVecEnv, Episode
from mepol.sb3.library import PPO, SAC, ActorCriticPolicy, ReplayBuffer
from mepol.sb3.rollout import fill_replay, fill_rollout, ready, squashed
from mepol.sb3.settings import TrpoSettings
from mepol.sb3.trpo import make_trpo


class OnPolicy:
    """TRPO or PPO whose actor starts as `start`."""

    def __init__(self, env: BatchedVecEnv, config: FinetuneConfig, start: GaussianPolicy) -> None:
        self._env = env
        self._value_target = (config.trpo if config.algo == "trpo" else config.ppo).value_target
        make = _trpo if config.algo == "trpo" else _ppo
        self.model: Any = make(env, config, architecture(start.widths[1:-1]))
        self._actor: ActorCriticPolicy = self.model.policy
        write_actor(self._actor, start)
        ready(self.model)

    def collect(self, seeds: list[int]) -> None:
        """Fill the rollout buffer with one horizon of each sub-environment."""
        fill_rollout(self.model.rollout_buffer, self._env, self._actor, seeds, self._value_target)

    def learn(self) -> None:
        """One update from the rollout buffer."""
        with one_thread():
            self.model.train()

    def episodes(self) -> list[Episode]:
        """What has ended since the last call."""
        return self._env.take_episodes()

    def state(self) -> State:
        """Actor, critic and their optimiser."""
        return State({"policy": self._actor}, {"policy": self._actor.optimizer})

    def policy(self) -> GaussianPolicy:
        """The actor."""
        return read_actor(self._actor)


class OffPolicy:
    """SAC, alone or with an intrinsic reward."""

    def __init__(self, env: BatchedVecEnv, config: FinetuneConfig, state_dim: int) -> None:
        self._env, self._config = env, config
        self.method = _intrinsic(config, state_dim, int(np.prod(env.action_space.shape or ())))
        settings, layers = config.sac, list(config.hidden)
        self.model = SAC(
            "MlpPolicy",
            env,
            learning_rate=settings.learning_rate,
            gamma=settings.discount,
            buffer_size=settings.buffer,
            batch_size=settings.batch,
            tau=settings.tau,
            learning_starts=0,
            ent_coef="auto",
            replay_buffer_class=ReplayBuffer if self.method is None else ShapedReplay,
            policy_kwargs={"net_arch": layers, "activation_fn": nn.ReLU},
            device="cpu",
        )
        if isinstance(self.replay, ShapedReplay) and self.method is not None:
            weights = config.intrinsic
            self.replay.shape(self.method, Weights(weights.extrinsic_weight, weights.intrinsic_weight))
        ready(self.model)

    @property
    def replay(self) -> ReplayBuffer:
        """SAC's memory."""
        assert self.model.replay_buffer is not None
        return self.model.replay_buffer

    def warm_up(self, explorer: GaussianPolicy | None, seed: np.random.SeedSequence) -> int:
        """Play the exploration policy, or the untrained actor, into the memory; returns the steps that took."""
        per_lane = -(-self._config.sac.warmup // self._env.num_envs)
        reset_seed, noise_seed = seed.spawn(2)
        act = squashed(self.model.actor)
        if explorer is not None:
            assert isinstance(self._env.action_space, Box)
            act = in_unit_box(explorer, self._env.action_space, noise_seed)
        fill_replay(self.replay, self._env, act, per_lane, reset_seed.generate_state(self._env.num_envs).tolist())
        return per_lane * self._env.num_envs

    def collect(self, seeds: list[int]) -> None:
        """Store one horizon of each sub-environment."""
        fill_replay(self.replay, self._env, squashed(self.model.actor), self._config.horizon, seeds)

    def learn(self) -> None:
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

    def segment(self, rows: int) -> bytes:
        """The newest `rows` rows of the memory, M transitions each, as safetensors."""
        size = self.replay.buffer_size
        which = (self.replay.pos - rows + np.arange(rows)) % size
        tensors = {name: torch.from_numpy(array[which]) for name, array in _columns(self.replay).items()}
        return tensor_bytes(tensors, {"format": "mepol-replay-1"})

    def recall(self, paths: list[Path], rows_so_far: int) -> None:
        """Put back what `segment` wrote, oldest first; anything else is a CheckpointError.

        rows_so_far: rows that the run has ever stored. It fixes where in the memory they lie, and so which ones
        a batch draws.
        """
        parts = [(path, _read_segment(path)) for path in paths]
        columns, replay = _columns(self.replay), self.replay
        replay.pos = (rows_so_far - sum(len(part["rewards"]) for _, part in parts)) % replay.buffer_size
        for path, part in parts:
            if {n: tuple(t.shape[1:]) for n, t in part.items()} != {n: a.shape[1:] for n, a in columns.items()}:
                raise CheckpointError(f"{path} does not fit this run's memory")
            which = (replay.pos + np.arange(len(part["rewards"]))) % replay.buffer_size
            for name, array in columns.items():
                array[which] = part[name].numpy()
            replay.pos = (replay.pos + len(which)) % replay.buffer_size
        replay.full = rows_so_far >= replay.buffer_size


def make_learner(
    env: BatchedVecEnv, config: FinetuneConfig, start: GaussianPolicy, state_dim: int
) -> OnPolicy | OffPolicy:
    """The learner that `config.algo` names. Draws initial weights from the global generators.

    state_dim: S without what SMM appends.
    """
    if config.section == "sac":
        return OffPolicy(env, config, state_dim)
    return OnPolicy(env, config, start)


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an uneven last minibatch is fine
        return PPO(
            "MlpPolicy",
            env,
            n_steps=config.horizon,
            learning_rate=settings.learning_rate,
            batch_size=max(-(-settings.steps // settings.minibatches), 2),
            n_epochs=settings.passes,
            gamma=settings.discount,
            gae_lambda=settings.gae_lambda,
            clip_range=settings.clip,
            target_kl=settings.target_kl,
            policy_kwargs=networks,
            device="cpu",
        )


def _intrinsic(config: FinetuneConfig, state_dim: int, action_dim: int) -> IntrinsicReward | None:
    settings = config.intrinsic
    if config.algo == "smm":
        return Smm(state_dim, settings.skills, settings.skill_sign)
    if config.algo == "icm":
        return Icm(state_dim, action_dim)
    return Pseudocount(state_dim, settings.count_scale) if config.algo == "pseudocount" else None


def _columns(replay: ReplayBuffer) -> dict[str, NDArray[Any]]:
    return {
        "observations": replay.observations,
        "next_observations": replay.next_observations,
        "actions": replay.actions,
        "rewards": replay.rewards,
        "dones": replay.dones,
        "timeouts": replay.timeouts,
    }


def _read_segment(path: Path) -> dict[str, Tensor]:
    try:
        require_file(path)
        with safetensors.safe_open(path, framework="pt") as file:
            if (file.metadata() or {}).get("format") != "mepol-replay-1" or not is_intact(path):
                raise CheckpointError(f"{path} is damaged or not a part of a replay memory")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as fault:
        raise CheckpointError(f"cannot read {path}: {fault}") from fault
    if "rewards" not in tensors or len({len(t) for t in tensors.values()}) != 1:
        raise CheckpointError(f"{path} is not a part of a replay memory")
    return tensors
