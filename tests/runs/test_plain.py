"""Weights of another program are taken as they are; a stranger's file runs nothing and asks for no memory."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

import mepol
from mepol.errors import PolicyFileError
from mepol.runs.start import load_start


class Theirs(nn.Module):
    """An actor as CleanRL's users write it."""

    def __init__(self, squeeze: bool = True) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.mean = nn.Linear(8, 2)
        self.log_std = nn.Parameter(torch.full((2,) if squeeze else (1, 2), -0.3))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.mean(self.net(obs))


def written(tensors: dict[str, torch.Tensor], path: Path) -> Path:
    torch.save(tensors, path) if path.suffix == ".pt" else safetensors.torch.save_file(tensors, path)
    return path


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize("squeeze", [True, False])
def test_a_plain_state_dict_acts_as_its_module(suffix, squeeze, tmp_path):
    module = Theirs(squeeze)
    path = written(module.state_dict(), tmp_path / f"theirs{suffix}")
    for policy in (mepol.load_policy(path), load_start(str(path))):
        obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
        with torch.no_grad():
            np.testing.assert_array_equal(
                policy.act(obs, np.random.default_rng(0), deterministic=True), module(torch.from_numpy(obs)).numpy()
            )
        assert policy.widths == (4, 16, 8, 2)
        assert policy.log_std.tolist() == pytest.approx([-0.3, -0.3])
        assert not policy.correlation


def test_half_precision_and_scaling_are_taken_over(tmp_path):
    tensors = {name: tensor.half() for name, tensor in Theirs().state_dict().items()}
    tensors |= {"shift": torch.full((4,), 2.0), "scale": torch.full((4,), 0.5)}
    policy = mepol.load_policy(written(tensors, tmp_path / "a.pt"))
    assert policy.layers[0].weight.dtype == torch.float32
    assert policy.shift.tolist() == [2.0] * 4
    mepol.save_policy(policy, tmp_path / "b.safetensors")
    assert torch.equal(mepol.load_policy(tmp_path / "b.safetensors").log_std, policy.log_std)


def test_it_is_evaluated_and_fine_tuned_from(tmp_path):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = {"net.0.weight": torch.randn(8, 2), "net.0.bias": torch.zeros(8), "mean.weight": torch.randn(2, 8) * 0.1}
    path = written({**net, "mean.bias": torch.zeros(2), "log_std": torch.full((2,), -1.0)}, tmp_path / "mine.pt")
    found = mepol.evaluate(path, "gridworld", trajectories=3, horizon=40, k=4, eps=1e-15)
    assert found.evaluation.particles == 120
    settings = {"horizon": 40, "trpo.steps": 80, "progress": False}
    run = mepol.finetune("grid-goal1", init=path, iterations=0, out=tmp_path / "run", **settings)
    assert torch.equal(run.initial.layers[0].weight, net["net.0.weight"])


class Bomb:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def forged(path: Path, index: bytes, *, compress: int = zipfile.ZIP_STORED, more: bytes = b"") -> Path:
    with zipfile.ZipFile(path, "w", compress) as archive:
        archive.writestr("archive/data.pkl", index)
        archive.writestr("archive/version", b"3\n")
        if more:
            archive.writestr("archive/data/0", more)
    return path


def test_a_pickle_in_the_archive_is_not_run(tmp_path):
    mark = tmp_path / "mark"
    for protocol in range(6):
        path = forged(tmp_path / f"{protocol}.pt", pickle.dumps({"log_std": Bomb(mark)}, protocol=protocol))
        with pytest.raises(PolicyFileError, match="only tensors are read"):
            mepol.load_policy(path)
    torch.save(Theirs(), tmp_path / "module.pt")
    with pytest.raises(PolicyFileError, match=r"save policy.state_dict\(\) alone"):
        mepol.load_policy(tmp_path / "module.pt")
    assert not mark.exists()


def test_an_archive_that_would_fill_the_memory_is_refused_before(tmp_path):
    index = pickle.dumps({}, protocol=2)
    with pytest.raises(PolicyFileError, match="compressed"):
        mepol.load_policy(forged(tmp_path / "a.pt", index, compress=zipfile.ZIP_DEFLATED, more=bytes(1 << 20)))
    with pytest.raises(PolicyFileError, match="more than"):
        mepol.load_policy(forged(tmp_path / "b.pt", index, compress=zipfile.ZIP_DEFLATED, more=bytes((1 << 28) + 1)))
    with pytest.raises(PolicyFileError, match="its index is missing or too large"):
        mepol.load_policy(forged(tmp_path / "c.pt", index + bytes(1 << 17)))
    claimed = torch.zeros(1).expand(60_000, 60_000)  # a view of one number: 14 GB once it is copied
    tensors = {"mean.weight": claimed, "mean.bias": torch.zeros(1).expand(60_000), "log_std": torch.zeros(60_000)}
    with pytest.raises(PolicyFileError, match="impossible layer widths"):
        mepol.load_policy(written(tensors, tmp_path / "d.pt"))


GOOD = {name: tensor.clone() for name, tensor in Theirs().state_dict().items()}
WRONG = {
    "an extra tensor": ({**GOOD, "value.weight": torch.zeros(1)}, "no part of net"),
    "no mean": ({name: t for name, t in GOOD.items() if name != "mean.weight"}, "needs net.0.weight"),
    "no bias": ({name: t for name, t in GOOD.items() if name != "net.2.bias"}, "has no 'net.2.bias'"),
    "another width": ({**GOOD, "net.2.weight": torch.zeros(8, 15)}, "'net.2.weight' is"),
    "a vector of weights": ({**GOOD, "net.0.weight": torch.zeros(16)}, "those of a layer are"),
    "whole numbers": ({**GOOD, "log_std": torch.zeros(2, dtype=torch.int64)}, "LongStorage"),
    "no number": ({**GOOD, "mean.bias": torch.tensor([0.0, torch.nan])}, "NaN or infinite"),
    "a wild spread": ({**GOOD, "log_std": torch.full((2,), 50.0)}, "log_std outside"),
    "no scale": ({**GOOD, "shift": torch.zeros(4), "scale": torch.zeros(4)}, "not above 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_one_sentence(case, tmp_path):
    tensors, words = WRONG[case]
    with pytest.raises(PolicyFileError, match=words):
        mepol.load_policy(written(tensors, tmp_path / "x.pt"))


def test_every_flipped_or_missing_byte_is_a_sentence_or_a_policy(tmp_path):
    """No byte of a small archive can bring anything else."""
    file = io.BytesIO()
    torch.save(GOOD, file)
    data, rng, refused = file.getvalue(), np.random.default_rng(0), 0
    for trial in range(300):
        spoilt = bytearray(data)
        if trial % 3 == 0:
            del spoilt[int(rng.integers(len(data))) :]
        else:
            spoilt[int(rng.integers(len(data)))] ^= int(rng.integers(1, 256))
        path = tmp_path / "x.pt"
        path.write_bytes(spoilt)
        try:
            mepol.load_policy(path)
        except PolicyFileError:
            refused += 1
    assert refused > 150
