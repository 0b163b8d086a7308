"""Files that a stranger made to be expensive or odd: a named sentence, in less than 1 GB and 10 seconds.

Each is given to a real command, in a process of its own, whose peak memory the system measures.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from crash import Ended, Ledger, Nursery, argv_of, copy, header_of, newest, parts_of
from safetensors.torch import load

from mepol.algorithm import GaussianPolicy
from mepol.runs.policies import save_policy
from mepol.runs.tensors import digest_in, tensor_bytes

Find = Callable[[str], Path]
COINCIDES = "particles coincide"


def is_named(ended: Ended) -> None:
    """It ended with one of our sentences, and took neither much time nor much memory."""
    assert ended.code in (1, 2), (ended.code, ended.text[-2000:])
    assert "Traceback" not in ended.text, ended.text[-2000:]
    assert "mepol: " in ended.text
    assert COINCIDES not in ended.text  # a run as small as these cannot be measured: that is not what is looked for
    assert ended.peak < 1000, f"{ended.peak:.0f} MB"
    assert ended.busy < 10, f"{ended.busy:.1f} s"


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """A JSON file with something changed in it; NaN and half characters are written as they are."""
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def sparse(path: Path, size: int, start: bytes = b"") -> None:
    path.write_bytes(start)
    os.truncate(path, size)


def header_bytes(entries: dict[str, Any]) -> bytes:
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text


def zeros_with_a_digest(path: Path, shape: list[int], texts: dict[str, str], name: str = "weight") -> None:
    """A sparse file of zeros whose digest fits."""
    size = 4
    for n in shape:
        size *= n
    entries: dict[str, Any] = {name: {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}, "__metadata__": texts}
    content = hashlib.sha256(json.dumps(entries, sort_keys=True, separators=(",", ":")).encode())
    for _ in range(size >> 20):
        content.update(bytes(1 << 20))
    texts["sha256"] = content.hexdigest()
    start = header_bytes(entries)
    sparse(path, len(start) + size, start)


EMPTY = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
POLICY = {"__metadata__": {"format": "mepol-policy-1", "widths": "[2, 2]"}}
WORDS: dict[str, Callable[[Path], object]] = {
    "wide layers in a config": lambda run: changed(
        run / "config.json", lambda c: c["policy"].update(hidden=[65536] * 20)
    ),
    "NaN in a config": lambda run: changed(
        run / "config.json", lambda c: c["ascent"].update(learning_rate=float("nan"))
    ),
    "infinity in a config": lambda run: changed(
        run / "config.json", lambda c: c["ascent"].update(kl_threshold=float("inf"))
    ),
    "half a character in a config": lambda run: changed(run / "config.json", lambda c: c.update(env="\ud800")),
    "half a character in a key": lambda run: changed(run / "config.json", lambda c: c.update({"\udfff": 1})),
    "5000 digits in a config": lambda run: (run / "config.json").write_text(
        (run / "config.json").read_text().replace('"horizon": 24', f'"horizon": {"9" * 5000}')
    ),
    "400 digits in a config": lambda run: changed(run / "config.json", lambda c: c.update(horizon=10**400)),
    "deep brackets in a config": lambda run: (run / "config.json").write_bytes(b"[" * 900_000),
    "no UTF-8 in a config": lambda run: (run / "config.json").write_bytes(b'{"env": "\xff"}'),
    "5000 digits in a domain": lambda run: changed(run / "domain.json", lambda d: d.update(ceiling=10**4000)),
    "half a character in a domain": lambda run: changed(run / "domain.json", lambda d: d.update(env="\ud800")),
    "no UTF-8 in a domain": lambda run: (run / "domain.json").write_bytes(b"\xff\xfe"),
    "many bins in a domain": lambda run: changed(run / "domain.json", lambda d: d["grid"].update(bins=[10**9, 10**9])),
    "a sparse policy of 10 GB": lambda run: sparse(
        run / "policy.safetensors", 10 * 2**30, (run / "policy.safetensors").read_bytes()
    ),
    "a header of a million tensors": lambda run: (run / "policy.safetensors").write_bytes(
        (10**8).to_bytes(8, "little") + b"{" + b'"1":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},' * 10**6
    ),
    "a header of ten thousand tensors": lambda run: (run / "policy.safetensors").write_bytes(
        header_bytes({**POLICY, **{f"{i}": EMPTY for i in range(10**4)}})
    ),
    "half a character in a header": lambda run: (run / "policy.safetensors").write_bytes(
        header_bytes({"__metadata__": {"format": "\ud800", "widths": "[2, 2]"}})
    ),
    "5000 digits in a header": lambda run: (run / "policy.safetensors").write_bytes(
        b"\x40\x1f\0\0\0\0\0\0" + b'{"a":' + b"9" * 7994 + b"}"
    ),
    "a policy of a stranger's class, 1 GB": lambda run: zeros_with_a_digest(
        run / "policy.safetensors", [2**28], {"format": "mepol-given-1", "class": "Huge"}
    ),
    "layers of two billion weights": lambda run: zeros_with_a_digest(
        run / "policy.safetensors", [2**20], {"format": "mepol-policy-1", "widths": "[2, 65536, 32768, 2]"}
    ),
}


@pytest.mark.parametrize("what", WORDS)
def test_a_strangers_run_is_refused_by_name(
    what: str, nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    run = copy(reference, tmp_path / "run")
    WORDS[what](run)
    ended = nursery.run(["goals", str(run), "--trajectories", "2"])
    is_named(ended)
    ledger.note("file made to be large, deep or odd", "a named error, below 1 GB and 10 s")


ELSEWHERE: dict[str, Callable[[Path], object]] = {
    "an environment that is not installed": lambda run: changed(
        run / "config.json", lambda c: c.update(env="Nowhere-v7")
    ),
    "another environment": lambda run: changed(run / "config.json", lambda c: c.update(env="Pendulum-v1")),
    "one without a box of actions": lambda run: changed(run / "config.json", lambda c: c.update(env="CartPole-v1")),
    "a policy for another": lambda run: save_policy(GaussianPolicy(7, 3, (8,)), run / "policy.safetensors"),
}


@pytest.mark.parametrize("what", ELSEWHERE)
def test_a_run_that_does_not_fit_its_environment_is_named_and_left_as_it_was(
    what: str, nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    run = copy(reference, tmp_path / "run")
    ELSEWHERE[what](run)
    before = {path: path.read_bytes() for path in run.rglob("*.*") if path.is_file()}
    commands = ["video", "evaluate", "goals", *(["resume"] if "policy" not in what else [])]
    for command in commands:
        is_named(nursery.run([command, str(run)]))
    assert before == {path: path.read_bytes() for path in run.rglob("*.*") if path.is_file()}
    ledger.note(
        "run whose environment is missing or another", "a named error, below 1 GB and 10 s", tried=len(commands)
    )


CELLS = {
    "400 digits": "1" + "0" * 400,
    "5000 digits": "9" * 5000,
    "1e308": "1e308",
    "not a number": "nan",
    "no UTF-8": b"\xff".decode("latin-1"),
    "another script's digits": "१",
}


@pytest.mark.parametrize("what", CELLS)
@pytest.mark.parametrize("kind", ["mepol", "trpo"])
def test_an_odd_cell_is_refused_by_name(
    kind: str, what: str, nursery: Nursery, references: Find, tmp_path: Path, ledger: Ledger
) -> None:
    run = copy(references(kind), tmp_path / "run")
    lines = (run / "metrics.csv").read_text().splitlines(keepends=True)
    cells = lines[2].split(",")
    lines[2] = ",".join([cells[0], CELLS[what], *cells[2:]])
    (run / "metrics.csv").write_bytes("".join(lines).encode("latin-1" if what == "no UTF-8" else "utf-8"))
    for command in (["compare", str(run), "--out", str(tmp_path / "out")], ["resume", str(run)]):
        ended = nursery.run(command)
        if what == "another script's digits":  # int() reads them, and they are the number that they say
            assert "Traceback" not in ended.text
        else:
            is_named(ended)
    ledger.note("odd number in a table", "RUN/metrics.csv, line 3: '1e308' is not a number that a run writes")


@pytest.mark.torture
def test_tables_at_their_limit_cost_seconds_and_not_gigabytes(
    nursery: Nursery, reference: Path, tmp_path: Path, ledger: Ledger
) -> None:
    run = copy(reference, tmp_path / "run")
    head = (run / "metrics.csv").read_text().splitlines(keepends=True)[0]
    row = "0,0" + "," * (head.count(",") - 1) + "\n"
    (run / "metrics.csv").write_text(head + row * ((2**26 - len(head)) // len(row)))
    is_named(nursery.run(["compare", str(run)]))
    full = "0,1234567,1.2345678901234,0.1,2,3.5,0.001,1.0,1.0,1.0,1.5,2.5,3.5,44"
    full += ",0" * (head.count(",") - full.count(",")) + "\n"
    (run / "metrics.csv").write_text(head + full * 100_000)
    ended = nursery.run(["compare", str(run)])
    assert (ended.code, ended.peak < 1000, ended.busy < 10) == (0, True, True), ended
    for line in ("0\n", "0" * 18 + ",0\n"):
        heat = copy(reference, tmp_path / f"heat-{len(line)}")
        path = max((heat / "heatmaps").glob("*.csv"))
        path.write_text(line * ((2**26 - 100) // len(line)))
        is_named(nursery.run(["animate", str(heat)]))
    wide = copy(reference, tmp_path / "wide")
    max((wide / "heatmaps").glob("*.csv")).write_text("0," * (2**25 - 100) + "0\n")
    is_named(nursery.run(["animate", str(wide)]))
    ledger.note("table at its size limit", "a named error, below 1 GB and 10 s", tried=4)


@pytest.mark.parametrize("kind", ["mepol", "trpo"])
def test_a_run_longer_than_its_table_may_be_is_refused_before_it_begins(
    kind: str, nursery: Nursery, references: Find, tmp_path: Path
) -> None:
    is_named(nursery.run(argv_of(kind, tmp_path / "run", length=100_001)))
    assert not (tmp_path / "run").exists()
    run = copy(references(kind), tmp_path / "longer")
    before = {path: path.read_bytes() for path in run.rglob("*.*") if path.is_file()}
    turn = "--epochs" if kind == "mepol" else "--iterations"
    is_named(nursery.run(["resume", str(run), turn, "100001"]))
    assert before == {path: path.read_bytes() for path in run.rglob("*.*") if path.is_file()}


STUDIES = {
    "a hundred million seeds": 'preset = "gridworld"\nseeds = 100000000\n',
    "a seed of 400 digits": f'preset = "gridworld"\nseeds = {10**400}\n',
    "a seed of 5000 digits": f'preset = "gridworld"\nseeds = {"9" * 5000}\n',
    "a setting of 5000 digits": f'preset = "gridworld"\n[settings]\nk = {"9" * 5000}\n',
    "NaN": 'preset = "gridworld"\n[settings]\nlearning_rate = nan\n',
    "deep brackets": "seeds = " + "[" * 500_000,
    "a huge network": 'preset = "gridworld"\n[settings]\nhidden = [65536, 65536, 65536]\n',
    "a name that climbs out": 'preset = "gridworld"\n[[variant]]\nname = "../../out"\n',
    "no UTF-8": b'preset = "gridworld\xff"\n'.decode("latin-1"),
}


@pytest.mark.parametrize("what", STUDIES)
def test_a_strangers_study_is_refused_by_name(what: str, nursery: Nursery, tmp_path: Path, ledger: Ledger) -> None:
    study = tmp_path / "study.toml"
    study.write_bytes(STUDIES[what].encode("latin-1"))
    is_named(nursery.run(["sweep", str(study), "--out", str(tmp_path / "out")]))
    assert not (tmp_path / "out").exists()
    ledger.note("file made to be large, deep or odd", "a named error, below 1 GB and 10 s")


@pytest.mark.parametrize(("name", "value"), [("log_std", 89.0), ("log_std", -1e4), ("scale", 0.0), ("scale", -1.0)])
def test_a_start_that_cannot_act_is_refused_by_name(
    name: str, value: float, nursery: Nursery, tmp_path: Path, ledger: Ledger
) -> None:
    policy = GaussianPolicy(2, 2, (8,))
    with torch.no_grad():
        getattr(policy, name).fill_(value)
    save_policy(policy, tmp_path / "start.safetensors")
    is_named(nursery.run(argv_of("trpo", tmp_path / "run", "--init", str(tmp_path / "start.safetensors"))))
    assert not (tmp_path / "run").exists()
    ledger.note("policy of extreme numbers to start from", "start.safetensors has a log_std outside [-30, 20] ...")


PARTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "without dimensions": lambda t: torch.tensor(0.0),
    "of bfloat16": lambda t: t.to(torch.bfloat16),
    "of NaN": lambda t: torch.full_like(t, torch.nan),
    "of no rows": lambda t: t[:0],
}


@pytest.mark.parametrize("what", PARTS)
def test_a_forged_memory_is_refused_by_name(
    what: str, nursery: Nursery, references: Find, tmp_path: Path, ledger: Ledger
) -> None:
    """Its digest fits, and the checkpoints name it: what it holds is looked at all the same."""
    run = copy(references("sac"), tmp_path / "run")
    parts = {path for checkpoint in (run / "checkpoints").iterdir() for path in parts_of(checkpoint).values()}
    digests = {}
    for path in parts:
        tensors = load(path.read_bytes())
        tensors["rewards"] = PARTS[what](tensors["rewards"])
        old = header_of(path)["sha256"]
        path.write_bytes(tensor_bytes(tensors, {"format": header_of(path)["format"]}))
        digests[old] = digest_in(path.read_bytes())
    for checkpoint in (run / "checkpoints").iterdir():
        texts = header_of(checkpoint)
        named = [[number, rows, digests[digest]] for number, rows, digest in json.loads(texts["parts"])]
        texts["parts"] = json.dumps(named)
        del texts["sha256"]
        checkpoint.write_bytes(tensor_bytes(load(checkpoint.read_bytes()), texts))
    assert newest(run).exists()
    is_named(nursery.run(["resume", str(run)]))
    ledger.note("forged replay part", "RUN/replay/... holds NaN or infinite values; falling back", tried=1)


@pytest.mark.parametrize("turn", ["9" * 12, "99999"])
def test_a_mixture_cannot_ask_for_more_policies_than_there_are(
    turn: str, nursery: Nursery, references: Find, tmp_path: Path, ledger: Ledger
) -> None:
    run = copy(references("maxent"), tmp_path / "run")
    for checkpoint in (run / "checkpoints").iterdir():
        texts = header_of(checkpoint) | {"turn": turn}
        del texts["sha256"]
        checkpoint.write_bytes(tensor_bytes(load(checkpoint.read_bytes()), texts))
    is_named(nursery.run(["resume", str(run)]))
    ledger.note("file made to be large, deep or odd", "a named error, below 1 GB and 10 s")
