"""A run with discrete actions that was stopped and resumed equals one never stopped, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from same import Stopped, assert_same_run, stop_after

from mepol.exploration.drive import explore, resume


@pytest.mark.parametrize("rule", ["importance", "advantage"])
def test_a_resumed_run_is_one_never_stopped(tiny: Callable, tmp_path: Path, rule: str) -> None:
    settings = {"rule": rule, "learning_rate": 1e-3, "mirror": True, "zero_mean_steps": 0, "standardise": True}
    config = tiny(env="Acrobot-v1", horizon=30, epochs=3, heatmap_axes="0,1", **settings)
    explore(config, tmp_path / "whole")
    with pytest.raises(Stopped):
        explore(config, tmp_path / "part", callbacks=[stop_after(1)])
    resume(tmp_path / "part")
    assert_same_run(tmp_path / "whole", tmp_path / "part")
