"""The rule of the horizon's curriculum, by hand."""

from __future__ import annotations

import itertools

import pytest
import torch

from mepol.algorithm.curriculum import SHARE, WINDOW, Curriculum


def horizons(entropies: list[float], start: int = 100, horizon: int = 800) -> list[int]:
    """T_h of each epoch whose batch has one of these entropies, and of the one after."""
    stages = Curriculum(start, horizon, trajectories=10)
    found = [stages.horizon]
    for entropy in entropies:
        doubled = stages.note(entropy)
        found.append(stages.horizon)
        assert doubled == (found[-1] != found[-2])
    return found


def test_a_steady_gain_keeps_the_horizon() -> None:
    assert set(horizons([0.1 * e for e in range(50)])) == {100}


def test_it_is_doubled_when_the_mean_gain_falls_to_half_of_the_best() -> None:
    """The entropy grows by 1 for ten epochs, then stands: mean gains 1, 2/3, and at 1/3 it is enough."""
    assert (WINDOW, SHARE) == (3, 0.5)
    entropies = [float(min(e, 10)) for e in range(20)]
    found = horizons(entropies)
    # (H_12 - H_9) / 3 = 1/3: the first epoch with the next horizon is the 13th.
    assert found[:13] == [100] * 13
    # There nothing is gained at all: three gains are waited for, and the horizon is doubled again.
    assert found[13:18] == [200] * 4 + [400]


def test_without_any_gain_it_grows_every_four_epochs_up_to_the_last() -> None:
    found = horizons([-1.0] * 40)
    assert [(t, len(list(group))) for t, group in itertools.groupby(found)] == [(100, 4), (200, 4), (400, 4), (800, 29)]


@pytest.mark.parametrize(("start", "stages"), [(7, [7, 14, 28, 30]), (29, [29, 30]), (30, [30])])
def test_samples_of_an_epoch_stay(start: int, stages: list[int]) -> None:
    """M T as asked for, rounded up to whole trajectories."""
    curriculum, found = Curriculum(start, 30, trajectories=4), []
    for _ in range(30):
        found.append(curriculum.horizon)
        drawn = curriculum.trajectories * curriculum.horizon
        assert 120 <= drawn < 120 + curriculum.horizon
        curriculum.note(0.0)
    assert list(dict.fromkeys(found)) == stages
    assert (curriculum.horizon, curriculum.trajectories) == (30, 4)


def test_its_state_is_all_that_it_needs() -> None:
    rng = torch.Generator().manual_seed(0)
    entropies = torch.rand(40, generator=rng, dtype=torch.float64).cumsum(0).sqrt().tolist()
    whole = horizons(entropies)
    assert len(set(whole)) > 1
    for stop in range(len(entropies)):
        before, after = Curriculum(100, 800, 10), Curriculum(100, 800, 10)
        for entropy in entropies[:stop]:
            before.note(entropy)
        for name, tensor in after.state().items():
            tensor.copy_(before.state()[name])
        found = []
        for entropy in entropies[stop:]:
            found.append(after.horizon)
            after.note(entropy)
        assert found == whole[stop:-1]
