"""What examples/ and docs/guide/extending.md show is run as it stands, and learns."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from pages import DOCS, ROOT, python, run_python

import mepol
from mepol.algorithm import KnnLandscape, Landscape

PAGE = (DOCS / "guide" / "extending.md").read_text()
COMMON, *OTHERS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
HEADINGS = [section.splitlines()[0] for section in OTHERS]


@pytest.fixture(autouse=True)
def _place(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs without a place of their own go where the tests clean up."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("runs")))


def ran(section: str) -> dict[str, Any]:
    """The names that the page's common block and the section's own leave behind."""
    return run_python([*python(COMMON), *python(section)], "extending.md")


def load_example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_loop_explores_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    entropies = load_example("loop_without_files").main(epochs=8)
    assert entropies[-1] > entropies[0] + 2.0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[3] for line in lines] == [f"{value:.3f}" for value in entropies]
    assert not any(tmp_path.iterdir())


def test_the_example_repeats_itself() -> None:
    example = load_example("loop_without_files")
    assert example.main(epochs=3) == example.main(epochs=3)


@pytest.mark.parametrize("section", OTHERS, ids=HEADINGS)
def test_each_part_of_the_page_is_short_and_learns(section: str) -> None:
    (block,) = python(section)
    assert len([line for line in block.splitlines() if line.strip()]) <= 30
    entropies = ran(section)["entropies"]
    assert len(entropies) == 6
    assert entropies[-1] > entropies[0] + 0.3


def test_the_pages_estimator_says_what_a_histogram_does() -> None:
    """Particles even over a square have the entropy of its area; a Landscape's gradient is its derivative."""
    (section,) = (section for section in OTHERS if section.startswith("Another estimator"))
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 2, (20_000, 2))
    cells: Landscape = ran(section)["Cells"](x, side=0.1)
    equal = torch.full((cells.n,), 1 / cells.n, dtype=torch.float64)
    entropy, kl = cells.weighted(equal)
    assert cells.entropy() == pytest.approx(np.log(4.0), abs=0.02)
    assert cells.entropy() == pytest.approx(KnnLandscape.of(x, 4).entropy(), abs=0.05)
    assert entropy.item() == pytest.approx(cells.entropy(), abs=1e-9)
    assert kl.item() == pytest.approx(0.0, abs=1e-9)
    assert cells.worth().mean() == pytest.approx(-np.log(1 / 400), abs=0.02)
    weights = torch.from_numpy(rng.dirichlet(np.ones(50))).requires_grad_()
    few: Landscape = ran(section)["Cells"](x[:50], side=0.5)
    assert torch.autograd.gradcheck(few.weighted, (weights,), eps=1e-8, atol=1e-5)


def test_the_pages_explorer_is_resumed_to_the_same_bits(tmp_path: Path) -> None:
    (section,) = (section for section in OTHERS if section.startswith("A new explorer"))
    page = ran(section)
    kind = page["Kind"]("tries", "random changes, the best is kept", page["Tries"])
    settings = {**page["SIZES"], **page["CLIMB"], **page["START"], "horizon": 20, "trajectories": 4}
    whole = mepol.explore("gridworld", **settings | {"epochs": 3}, explorer=kind, out=tmp_path / "whole")
    mepol.explore("gridworld", **settings | {"epochs": 1}, explorer=kind, out=tmp_path / "parts")
    parts = mepol.resume(tmp_path / "parts", length=3, explorer=kind, progress=False)
    assert parts.finished
    assert parts.metrics["entropy"].tolist()[:3] == whole.metrics["entropy"].tolist()[:3]
    assert (parts.path / "policy.safetensors").read_bytes() == (whole.path / "policy.safetensors").read_bytes()


def test_the_pages_domain_keeps_its_bounds_and_is_drawn() -> None:
    (section,) = (section for section in OTHERS if section.startswith("An own domain"))
    pond = ran(section)["Pond"](3, render_mode="rgb_array")
    pond.reset(seed=0)
    for _ in range(60):
        states, *_ = pond.step(np.full((3, 2), 9.0))
    assert (np.linalg.norm(states, axis=1) <= 5 + 1e-9).all()
    assert np.linalg.norm(states, axis=1).min() > 4.9  # they were carried to the shore
    frame = pond.render()[0]
    assert (frame.shape, frame.dtype) == ((64, 64, 3), np.uint8)
    row, column = np.argwhere(frame[..., 0] == 0).mean(axis=0)
    np.testing.assert_allclose([column, 63 - row], (states[0] + 5) * 6.3, atol=3)  # above is north
