"""Each rival on a small problem where the right bonus is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from mepol.envs.gridworld import GridWorldVectorEnv
from mepol.finetuning.intrinsic.pseudocount import Pseudocount, prediction_gain_count
from mepol.finetuning.intrinsic.reward import ShapedReplay, Weights
from mepol.finetuning.intrinsic.smm import SkillVectorEnv, Smm
from mepol.rewards.icm import Icm
from mepol.rewards.reward import Transitions


@pytest.fixture(autouse=True)
def seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def at(states: torch.Tensor, actions: torch.Tensor | None = None, after: torch.Tensor | None = None) -> Transitions:
    return Transitions(
        states, torch.zeros(len(states), 2) if actions is None else actions, states if after is None else after
    )


def with_skill(states: torch.Tensor, skill: torch.Tensor) -> torch.Tensor:
    return torch.cat([states, torch.nn.functional.one_hot(skill, 4).float()], dim=1)


def test_smm_pays_more_for_a_state_never_seen():
    smm = Smm(2)
    skill = torch.arange(64) % 4
    for _ in range(80):
        smm.update(at(with_skill(0.1 * torch.randn(64, 2), skill)))
    seen = smm.reward(at(with_skill(0.1 * torch.randn(64, 2), skill)))
    new = smm.reward(at(with_skill(5 + 0.1 * torch.randn(64, 2), skill)))
    assert new.min() > seen.max()


def test_smm_pays_for_states_that_tell_the_skill_and_the_release_the_other_way_round():
    # Skill 0 is always to the left, the others to the right: the classifier can learn that and nothing more.
    paper, release = Smm(2), Smm(2, sign="release")
    skill = torch.arange(128) % 4
    states = torch.where(skill[:, None] == 0, -1.0, 1.0).expand(128, 2)
    for _ in range(120):
        paper.update(at(with_skill(states, skill)))
    release.load_state_dict(paper.state_dict())
    told = paper._cross_entropy(with_skill(states, skill))
    assert told[skill == 0].max() < 0.05
    assert told[skill == 1].mean().item() == pytest.approx(math.log(3), abs=0.1)
    obs = with_skill(states, skill)
    torch.manual_seed(1)
    ours = paper.reward(at(obs))
    torch.manual_seed(1)
    theirs = release.reward(at(obs))
    torch.testing.assert_close(theirs - ours, 2 * told.detach(), rtol=1e-3, atol=1e-3)


def test_smm_counts_the_number_of_skills_in_nats():
    smm = Smm(2)
    obs = with_skill(torch.randn(8, 2), torch.arange(8) % 4)
    torch.manual_seed(2)
    got = smm.reward(at(obs))
    torch.manual_seed(2)
    rare = -smm.density.log_density(obs, torch.randn(8, 128))
    torch.testing.assert_close(got, (rare + math.log(4) - smm._cross_entropy(obs)).detach())


def test_the_forward_error_of_icm_falls_on_repeated_transitions_and_stays_high_elsewhere():
    icm = Icm(2, 2)
    states, actions = torch.randn(64, 2), torch.rand(64, 2) * 2 - 1
    repeated = at(states, actions, states + 0.2 * actions)
    other = at(states, actions, states + 3 * torch.randn(64, 2))
    before = icm.reward(repeated).mean()
    for _ in range(100):
        icm.update(repeated)
    after = icm.reward(repeated).mean()
    assert after < 0.3 * before
    assert icm.reward(other).mean() > 3 * after


def test_pseudo_counts_track_true_counts_on_a_discrete_toy():
    # The exact density of a discrete toy: p = visits / total. Its count must come back from its prediction gain.
    visits = {"often": 60, "seldom": 6, "once": 1}
    total = sum(visits.values())
    for n in visits.values():
        gain = math.log((n + 1) / (total + 1)) - math.log(n / total)
        # with c = sqrt(n_total) the formula is 1 / (p'/p - 1): the visits, up to those already there
        assert prediction_gain_count(gain, total, math.sqrt(total)) == pytest.approx(n * (total + 1) / (total - n))
    assert prediction_gain_count(-1.0, 10) == math.inf
    assert prediction_gain_count(1e9, 1) > 0


def test_the_vae_pseudo_count_ranks_states_by_how_often_they_were_seen():
    counter = Pseudocount(3)
    often, seldom = torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[0.0, -1.0, 1.0]])
    for i in range(200):
        counter.reward(at(seldom if i % 40 == 20 else often))
    assert int(counter.learnt) == 200
    bonus = {name: counter.reward(at(x)).item() for name, x in (("often", often), ("seldom", seldom))}
    new = counter.reward(at(torch.tensor([[-3.0, 4.0, 3.0]]))).item()
    assert new > bonus["seldom"] > bonus["often"] >= 0


def test_the_bonus_of_a_new_state_falls_with_visits():
    counter = Pseudocount(2)
    paid = [counter.reward(at(torch.tensor([[2.0, -2.0]]))).item() for _ in range(80)]
    assert np.mean(paid[-20:]) < 0.3 * np.mean(paid[:5])


class Constant(Icm):
    """Pays 2 for everything, and counts how often it learnt."""

    learnt_batches = 0

    def reward(self, transitions):
        return torch.full((len(transitions.obs),), 2.0)

    def update(self, transitions):
        self.learnt_batches += 1


@pytest.mark.parametrize("online", [False, True])
def test_extrinsic_and_intrinsic_reward_are_weighted_when_sampled_or_when_stored(online):
    replay = ShapedReplay(100, Box(-1, 1, (2,)), Box(-1, 1, (2,)), device="cpu", n_envs=2)
    method = Constant(2, 2)
    method.online = online
    replay.shape(method, Weights(1.0, 0.5))
    ones = np.ones((2, 2), dtype=np.float32)
    replay.add(ones, ones, ones, np.array([1.0, 0.0]), np.array([True, False]), [{}, {}])
    assert replay.rewards[0].tolist() == ([2.0, 1.0] if online else [1.0, 0.0])
    assert set(replay.sample(50).rewards.flatten().tolist()) == {2.0, 1.0}
    assert method.learnt_batches == 1


def test_a_skill_is_drawn_at_each_start_and_stays_for_the_episode():
    env = SkillVectorEnv(GridWorldVectorEnv(64), 4)
    states, _ = env.reset(seed=list(range(64)))
    assert states.shape == (64, 6)
    assert (states[:, 2:].sum(axis=1) == 1).all()
    assert (states[:, 2:].sum(axis=0) > 4).all()
    moved, *_ = env.step(np.zeros((64, 2)))
    assert np.array_equal(moved, states)
    mask = np.arange(64) < 32
    again, _ = env.reset(options={"reset_mask": mask})
    assert np.array_equal(again[~mask], states[~mask])
    assert (again[mask, 2:] != states[mask, 2:]).any()
    assert np.array_equal(env.reset(seed=list(range(64)))[0], states)
