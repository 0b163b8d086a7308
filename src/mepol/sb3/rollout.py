"""Playing a learner's policy at the speed of the batch.

Stable-Baselines3's own loops evaluate the value function, a distribution object and several copies at every
step, which costs more than a step of a light domain. Here a step is one pass of the actor's mean and one batched
step; what the learner needs besides (values, log-probabilities, bootstraps) is computed once, for all steps together.
The rollout buffer holds the same numbers as after the library's `collect_rollouts` (tests/sb3/test_rollout.py),
but for what the value function learns: rewards-to-go, unless lambda-returns are asked for (docs/method/finetune.md).

Playing and learning use one thread of torch, whatever the run may have: torch cuts dot products and sums of more than
32,768 numbers among its threads, so that the last digit of a run would tell their number. Two threads save a third of
an update where two cores are free (ant-navigate: 9.6 s, then 6.9 s), and take three times as long where they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray

from mepol.algorithm.categorical import CategoricalPolicy
from mepol.algorithm.policy import one_thread
from mepol.sb3.actors import read_actor
from mepol.sb3.adapter import BatchedVecEnv, Floats
from mepol.sb3.library import ActorCriticPolicy, Logger, ReplayBuffer, RolloutBuffer, SacActor
from mepol.sb3.settings import ValueTarget

Act = Callable[[Floats], Floats]
Judge = Callable[[Floats], Floats]
"""(N, S) states -> (N,) what each is worth."""


@dataclass(frozen=True)
class Played:
    """What a rollout buffer of (T, M) steps does not keep: how its E episodes ended, and where all stand after it."""

    steps: NDArray[np.int64]
    """(E,) step of each end, from 0 to T - 1."""
    lanes: NDArray[np.int64]
    """(E,) sub-environment of each end, from 0 to M - 1."""
    states: Floats
    """(E, S) last states of the episodes."""
    cut: NDArray[np.bool_]
    """(E,) whether time ended an episode, and not its own rule."""
    after: Floats
    """(M, S) where all stand after the last step: at the start of another episode where one has ended there."""
    done: NDArray[np.bool_]
    """(M,) whether the last step ended an episode."""

    @staticmethod
    def of(ends: Sequence[tuple[int, int, dict[str, Any]]], after: Floats, done: NDArray[np.bool_]) -> Played:
        """ends: step, sub-environment and info of each end, as Stable-Baselines3 has it."""
        at = np.array([(t, i) for t, i, _ in ends], dtype=np.int64).reshape(-1, 2)
        states = np.array([info["terminal_observation"] for _, _, info in ends], dtype=np.float32)
        cut = np.array([info["TimeLimit.truncated"] for _, _, info in ends], dtype=bool)
        return Played(at[:, 0], at[:, 1], states.reshape(-1, after.shape[1]), cut, after, done)

    def reached(self, observations: Floats) -> Floats:
        """(T, M, S) the state that each step led to, from the (T, M, S) that it began in."""
        states = np.concatenate([observations[1:], self.after[None]])
        states[self.steps, self.lanes] = self.states
        return states


def ready(model: Any) -> None:
    """Prepare a Stable-Baselines3 model for iterations that are played here; its logger says nothing."""
    model.set_logger(Logger(folder=None, output_formats=[]))
    model._setup_learn(total_timesteps=1)


@one_thread()
@torch.no_grad()
def fill_rollout(
    buffer: RolloutBuffer,
    env: BatchedVecEnv,
    actor: ActorCriticPolicy,
    seeds: list[int] | None,
    value_target: ValueTarget = "reward-to-go",
) -> Played:
    """Fill `buffer` (T, M) with steps of `actor`; noise from torch's generator. Returns what it does not keep of them.

    seeds: (M,) that `env` is restarted from, or None to go on from where it stands.
    """
    play, space = _player(actor, env.num_envs), env.action_space
    buffer.reset()
    obs = env.states if seeds is None else env.restart(seeds)
    starts = env.starts
    ends: list[tuple[int, int, dict[str, Any]]] = []
    for t in range(buffer.buffer_size):
        actions = play(obs)
        buffer.observations[t], buffer.actions[t], buffer.episode_starts[t] = obs, actions, starts
        env.step_async(np.clip(actions, space.low, space.high) if isinstance(space, Box) else actions)
        obs, buffer.rewards[t], starts, infos = env.step_wait()
        if starts.any():
            ends += [(t, int(i), infos[i]) for i in np.flatnonzero(starts)]
    buffer.pos, buffer.full = buffer.buffer_size, True
    played = Played.of(ends, obs, starts)
    _judge(buffer, actor)
    last = _settle(buffer, played, judge_of(actor))
    if value_target == "reward-to-go":
        after = np.where(starts, 0, last)
        buffer.returns[:] = rewards_to_go(buffer.rewards, buffer.episode_starts, after, buffer.gamma)
    return played


def judge_of(actor: ActorCriticPolicy) -> Judge:
    """The value function of `actor`."""

    @one_thread()
    @torch.no_grad()
    def judge(states: Floats) -> Floats:
        values: Floats = actor.predict_values(torch.from_numpy(states)).flatten().numpy()
        return values

    return judge


def credit(buffer: RolloutBuffer, played: Played, rewards: NDArray[Any], judge: Judge) -> tuple[Floats, Floats]:
    """(T, M) advantages and lambda-returns of the steps in `buffer` for other rewards, by another value function.

    rewards: (T, M). Discount, lambda and ends are the buffer's: an episode that ended by its own rule is worth nothing
    beyond its end, one that time cut its last state's value.
    """
    (steps, lanes), nothing = buffer.rewards.shape, Box(0, 1, (1,))
    ledger = RolloutBuffer(steps, nothing, nothing, "cpu", buffer.gae_lambda, buffer.gamma, lanes)
    ledger.rewards[:], ledger.episode_starts[:] = rewards, buffer.episode_starts
    ledger.values[:] = judge(buffer.observations.reshape(steps * lanes, -1)).reshape(steps, lanes)
    _settle(ledger, played, judge)
    return ledger.advantages, ledger.returns


def _settle(ledger: RolloutBuffer, played: Played, judge: Judge) -> Floats:
    """Advantages and lambda-returns of a ledger with rewards, values and starts; returns (M,) values after its end.

    An episode that time ended is worth its last state's value.
    """
    if played.cut.any():
        late = judge(played.states[played.cut])
        ledger.rewards[played.steps[played.cut], played.lanes[played.cut]] += ledger.gamma * late
    last = judge(played.after)
    ledger.compute_returns_and_advantage(torch.from_numpy(last), played.done)
    return last


def _player(actor: ActorCriticPolicy, num_envs: int) -> Act:
    """The actor of this moment as a function of (M, S) observations; noise from torch's generator."""
    policy = read_actor(actor)
    if isinstance(policy, CategoricalPolicy):
        respond, columns = policy.responder(), len(policy.choices)
        return lambda obs: respond(obs, torch.rand(num_envs, columns).numpy())
    mean, std = policy.mean, policy.log_std.exp()
    return lambda obs: (mean(torch.from_numpy(obs)) + std * torch.randn(num_envs, len(std))).numpy()


def rewards_to_go(rewards: Floats, starts: Floats, after: Floats, discount: float) -> Floats:
    """(T, M) discounted sums of the rewards from each step to its episode's end.

    rewards, starts: (T, M), and whether a step is an episode's first. after: (M,) what follows the last step is worth.
    """
    sums = np.empty_like(rewards)
    for t in reversed(range(len(rewards))):
        sums[t] = after = rewards[t] + discount * after
        after = np.where(starts[t], 0, after)  # the step before belongs to another episode
    return sums


def _judge(buffer: RolloutBuffer, actor: ActorCriticPolicy) -> None:
    """Values and log-probabilities of all steps."""
    shape = buffer.rewards.shape  # (T, M)
    states = torch.from_numpy(buffer.observations.reshape(-1, buffer.observations.shape[-1]))
    actions = torch.from_numpy(buffer.actions.reshape(-1, buffer.actions.shape[-1]))
    values, log_prob, _ = actor.evaluate_actions(states, actions)
    buffer.values[:], buffer.log_probs[:] = values.numpy().reshape(shape), log_prob.numpy().reshape(shape)


def fill_replay(replay: ReplayBuffer, env: BatchedVecEnv, act: Act, steps: int, seeds: list[int]) -> None:
    """Restart `env` from its seeds and store `steps` steps of each sub-environment in `replay`.

    act: observations (M, S) -> actions (M, A) in [-1, 1], which is how SAC stores them.
    """
    low, high = env.action_space.low, env.action_space.high  # type: ignore[attr-defined]
    half, middle = (high - low) / 2, (high + low) / 2
    obs = env.restart(seeds)
    with one_thread():
        for _ in range(steps):
            actions = act(obs)
            env.step_async(middle + half * actions)
            after, rewards, done, infos = env.step_wait()
            seen = after
            if done.any():
                seen = after.copy()
                for i in np.flatnonzero(done):
                    seen[i] = infos[i]["terminal_observation"]
            replay.add(obs, seen, actions, rewards, done, infos)
            obs = after


def squashed(actor: SacActor) -> Act:
    """SAC's actor as a function of observations; noise from torch's generator."""

    @torch.no_grad()
    def act(obs: Floats) -> Floats:
        mean, log_std, _ = actor.get_action_dist_params(torch.from_numpy(obs))
        actions: NDArray[np.float32] = torch.tanh(mean + log_std.exp() * torch.randn_like(mean)).numpy()
        return actions

    return act
