"""A policy of pictures as a file, and that a forged header is an error and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mepol import load_policy, save_policy
from mepol.algorithm import CategoricalPolicy, GaussianPolicy
from mepol.algorithm.pictures import Picture
from mepol.elsewhere.export import export
from mepol.errors import PolicyFileError
from mepol.runs.policies import policy_bytes
from mepol.runs.tensors import tensor_bytes

LARGE = Picture(40, 30, 3)  # read as 20 x 15
KINDS = {
    "gaussian": lambda: GaussianPolicy(LARGE.size, 2, (8, 6), 0.5, LARGE),
    "categorical": lambda: CategoricalPolicy(LARGE.size, (4, 2), (8, 6), LARGE),
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_is_written_is_read_back(kind: str, tmp_path: Path) -> None:
    policy = KINDS[kind]()
    policy.draw_weights(np.random.default_rng(0))
    save_policy(policy, tmp_path / "policy.safetensors")
    back = load_policy(tmp_path / "policy.safetensors")
    assert (type(back), back.widths, back.picture) == (type(policy), policy.widths, LARGE)
    assert policy_bytes(back) == policy_bytes(policy)
    pictures = np.random.default_rng(1).integers(0, 256, (5, 40, 30, 3), dtype=np.uint8)
    found = [p.act(pictures, np.random.default_rng(2)) for p in (back, policy)]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"picture": "[40, 30]"}, "not \\[height, width, channels\\]"),
        ({"picture": "[40, 30, true]"}, "not \\[height, width, channels\\]"),
        ({"picture": "[40, 30, 99]"}, "reads impossible pictures"),
        ({"picture": "[9000, 30, 3]"}, "reads impossible pictures"),
        ({"picture": "[30, 30, 3]"}, "as rows of 2700, not of 900"),
        ({"picture": "{"}, "unreadable header"),
        ({}, "does not hold the tensors"),
    ],
)
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_forged_header_is_refused(kind: str, change: dict[str, str], words: str, tmp_path: Path) -> None:
    policy = KINDS[kind]()
    header = {"format": "mepol-policy-1", "widths": json.dumps(policy.widths), "correlation": "0.5"}
    if kind == "categorical":
        header |= {"format": "mepol-choices-1", "choices": "[4, 2]"}
    path = tmp_path / "policy.safetensors"
    path.write_bytes(tensor_bytes(policy.state_dict(), {**header, **change}))
    with pytest.raises(PolicyFileError, match=words):
        load_policy(path)


def test_it_is_not_exported_and_says_so(tmp_path: Path) -> None:
    for to in ("numpy", "onnx", "torchscript", "sb3-ppo"):
        with pytest.raises(PolicyFileError, match=r"reads pictures \(40, 30, 3\) cannot be exported"):
            export(KINDS["gaussian"](), to, tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
