"""Loops that take turns: each runs to its end, in one hand at a time, and a fault of one ends all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from mepol.sampling.turns import take_turns

PRODUCTS = """
import threading

import torch
from mepol.neighbours.threads import torch_threads, workers
from mepol.sampling.turns import take_turns

torch.manual_seed(0)
sizes = [29, 32, 16, 8]  # small products show it, large ones do not
x, layers = torch.randn(11, 29), [(torch.randn(b, a), torch.randn(b)) for a, b in zip(sizes, sizes[1:])]
found = []

def loop():
    y = x
    for layer in layers:
        y = torch.nn.functional.linear(y, *layer)
    found.append(y)
    yield

def three_at_once():  # none ends before all have begun: each is in a thread of its own
    barrier = threading.Barrier(3)
    def waiting():
        barrier.wait()
        yield from loop()
    take_turns([waiting() for _ in range(3)], 3)

with torch_threads(1):
    for _ in loop():
        pass
    three_at_once()
    with workers(1) as pool:
        pool.submit(lambda: list(loop())).result()
assert len(found) == 5
assert all(torch.equal(found[0], other) for other in found), [float((found[0] - o).abs().max()) for o in found]
"""


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_loop_runs_to_its_end_in_one_hand_at_a_time(threads: int) -> None:
    lengths = [30, 0, 1, 200, 7, 99]
    done = [0] * len(lengths)
    hands = [threading.Lock() for _ in lengths]

    def loop(i: int) -> Iterator[None]:
        for _ in range(lengths[i]):
            with hands[i]:
                done[i] += 1
            yield

    before = threading.active_count()
    take_turns([loop(i) for i in range(len(lengths))], threads)
    assert done == lengths
    assert threading.active_count() == before


def test_one_thread_gives_every_loop_its_turn_in_order() -> None:
    seen: list[str] = []

    def loop(name: str, turns: int) -> Iterator[None]:
        for _ in range(turns):
            seen.append(name)
            yield

    take_turns([loop("a", 1), loop("b", 3), loop("c", 2)], 1)
    assert "".join(seen) == "abcbcb"


def test_two_loops_run_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=20)

    def loop() -> Iterator[None]:
        for _ in range(3):
            meeting.wait()  # would time out if one had to wait for the other's end
            yield

    take_turns([loop(), loop()], 2)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("fault", [IndexError("lost"), KeyboardInterrupt("stop")])
def test_what_a_loop_raises_ends_the_others(threads: int, fault: BaseException) -> None:
    def endless() -> Iterator[None]:
        while True:
            yield

    def faulty() -> Iterator[None]:
        yield
        raise fault

    before = threading.active_count()
    with pytest.raises(type(fault), match=str(fault)):
        take_turns([endless(), faulty(), endless()], threads)
    assert threading.active_count() == before


def test_products_round_alike_in_every_thread_where_nobody_limits_openmp() -> None:
    """`make test` sets OMP_NUM_THREADS, which users do not."""
    free = {name: value for name, value in os.environ.items() if name not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    subprocess.run([sys.executable, "-c", PRODUCTS], env=free, check=True)
