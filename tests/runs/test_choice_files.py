"""A categorical policy as a file, and that a forged header is an error and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from mepol import load_policy, save_policy
from mepol.algorithm import CategoricalPolicy
from mepol.errors import PolicyFileError
from mepol.runs.policies import policy_bytes
from mepol.runs.tensors import tensor_bytes


@pytest.fixture
def policy() -> CategoricalPolicy:
    made = CategoricalPolicy(3, (4, 2), (8, 6))
    made.draw_weights(np.random.default_rng(0))
    made.shift.copy_(torch.tensor([1.0, 2.0, 3.0]))
    made.scale.copy_(torch.tensor([0.5, 2.0, 1.0]))
    return made


def test_what_is_written_is_read_back(policy: CategoricalPolicy, tmp_path: Path) -> None:
    save_policy(policy, tmp_path / "policy.safetensors")
    back = load_policy(tmp_path / "policy.safetensors")
    assert type(back) is CategoricalPolicy
    assert (back.widths, back.choices) == ((3, 8, 6, 6), (4, 2))
    assert policy_bytes(back) == policy_bytes(policy)
    obs = np.random.default_rng(1).standard_normal((50, 3))
    np.testing.assert_array_equal(back.act(obs, np.random.default_rng(2)), policy.act(obs, np.random.default_rng(2)))


GOOD = {"format": "mepol-choices-1", "widths": "[3, 8, 6, 6]", "choices": "[4, 2]"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"choices": "[4, 3]"}, "impossible choices"),
        ({"choices": "[6, 0]"}, "impossible choices"),
        ({"choices": "[7, -1]"}, "impossible choices"),
        ({"choices": "[4.0, 2]"}, "impossible choices"),
        ({"choices": "[true, 5]"}, "impossible choices"),
        ({"choices": "6"}, "impossible choices"),
        ({"choices": "[" * 100_000}, "unreadable header"),
        ({"choices": ""}, "unreadable header"),
        ({"widths": "[3, 8, 6, 1000000000000]"}, "impossible layer widths"),
        ({"widths": "[3, 8, 8, 6]"}, "does not hold the tensors of a categorical policy"),
        ({"format": "mepol-policy-1"}, "does not hold the tensors of a policy"),
        ({"format": "mepol-choices-9"}, "is not a mepol policy"),
    ],
)
def test_a_forged_header_is_refused(
    policy: CategoricalPolicy, tmp_path: Path, change: dict[str, str], words: str
) -> None:
    path = tmp_path / "policy.safetensors"
    path.write_bytes(tensor_bytes(policy.state_dict(), {**GOOD, **change}))
    with pytest.raises(PolicyFileError, match=words):
        load_policy(path)


def test_a_good_header_by_the_same_way_is_taken(policy: CategoricalPolicy, tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    path.write_bytes(tensor_bytes(policy.state_dict(), GOOD))
    assert load_policy(path).choices == (4, 2)
    path.write_bytes(safetensors.torch.save(policy.state_dict(), GOOD))  # no digest
    with pytest.raises(PolicyFileError, match="damaged"):
        load_policy(path)


@pytest.mark.parametrize(("name", "value"), [("scale", 0.0), ("layers.0.weight", float("nan"))])
def test_impossible_tensors_are_refused(policy: CategoricalPolicy, tmp_path: Path, name: str, value: float) -> None:
    tensors = {key: tensor.clone() for key, tensor in policy.state_dict().items()}
    tensors[name].view(-1)[0] = value
    (tmp_path / "policy.safetensors").write_bytes(tensor_bytes(tensors, GOOD))
    with pytest.raises(PolicyFileError, match=r"scale that is not above 0|NaN or infinite"):
        load_policy(tmp_path / "policy.safetensors")


def test_a_header_is_plain_json(policy: CategoricalPolicy) -> None:
    data = policy_bytes(policy)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    assert {key: header[key] for key in GOOD} == GOOD
