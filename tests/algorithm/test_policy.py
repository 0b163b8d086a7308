"""The Gaussian policy: its density, its draws, its start, and that a file can only be a policy or an error."""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from gymnasium.spaces import Box
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Independent, Normal

from mepol import GaussianPolicy, load_policy, save_policy
from mepol.algorithm.policy import ROWS
from mepol.errors import MepolError, PolicyFileError

FORMAT = "mepol-policy-1"

# --- density and draws --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action_dim", [1, 2, 7])
def test_log_prob_is_that_of_independent_normals(make_policy: Callable, action_dim: int) -> None:
    policy = make_policy(5, action_dim).double()
    rng = np.random.default_rng(0)
    with torch.no_grad():
        policy.log_std.copy_(torch.from_numpy(rng.uniform(-2, 1, action_dim)))
    states, actions = (torch.from_numpy(rng.standard_normal((3, 40, d))) for d in (5, action_dim))
    truth = Independent(Normal(policy.mean(states), policy.log_std.exp()), 1).log_prob(actions)
    assert policy.log_prob(states, actions).shape == (3, 40)
    torch.testing.assert_close(policy.log_prob(states, actions), truth)


def block_gradients(policy: GaussianPolicy, n: int) -> list[torch.Tensor]:
    """ln pi of n states and actions, and the gradient of a fixed sum of them."""
    rng = np.random.default_rng(n)
    states, actions, weights = (torch.from_numpy(rng.standard_normal(shape)) for shape in ((n, 3), (n, 2), n))
    dtype = policy.log_std.dtype
    log_prob = policy.log_prob(states.to(dtype), actions.to(dtype))
    return [log_prob.detach(), *torch.autograd.grad(log_prob @ weights.to(dtype), list(policy.parameters()))]


@pytest.mark.parametrize("n", [ROWS, ROWS + 1, 2 * ROWS, 2 * ROWS + 700])
def test_blocks_of_rows_give_what_one_pass_gives(
    make_policy: Callable, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = make_policy(3, 2, hidden=(8, 8)).double()
    blocks = block_gradients(policy, n)
    monkeypatch.setattr("mepol.algorithm.policy.ROWS", 10 * n)
    for found, truth in zip(blocks, block_gradients(policy, n), strict=True):
        assert found.shape == truth.shape
        torch.testing.assert_close(found, truth, rtol=1e-10, atol=1e-10)


def test_the_number_of_threads_changes_no_digit_of_a_gradient(make_policy: Callable) -> None:
    policy = make_policy(3, 2, hidden=(300, 300))
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(block_gradients(policy, ROWS + 501))
    torch.set_num_threads(1)
    for several in found[1:]:
        assert all(torch.equal(one, other) for one, other in zip(found[0], several, strict=True))


def test_the_mean_is_a_relu_network_of_the_shifted_and_scaled_state(make_policy: Callable) -> None:
    policy = make_policy(3, 2, hidden=(4, 5))
    policy.shift.copy_(torch.tensor([1.0, 0.0, -2.0]))
    policy.scale.copy_(torch.tensor([2.0, 1.0, 0.5]))
    x = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    out = (x - np.array([1.0, 0.0, -2.0])) / np.array([2.0, 1.0, 0.5])
    for i, layer in enumerate(policy.layers):
        out = out @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
        out = np.maximum(out, 0) if i < 2 else out
    np.testing.assert_allclose(policy.mean(torch.from_numpy(x)).detach().numpy(), out, rtol=1e-5, atol=1e-6)


def test_draws_have_the_policy_s_mean_and_spread(make_policy: Callable) -> None:
    policy = make_policy(3, 2)
    with torch.no_grad():
        policy.log_std.copy_(torch.tensor([-1.0, 0.5]))
    obs = np.tile([0.3, -1.0, 2.0], (40_000, 1))
    draws = policy.act(obs, np.random.default_rng(0))
    mean = policy.act(obs[0], np.random.default_rng(0), deterministic=True)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.04)
    np.testing.assert_allclose(draws.std(axis=0), np.exp([-1.0, 0.5]), rtol=0.03)
    assert abs(np.corrcoef(draws.T)[0, 1]) < 0.03


def test_one_generator_fixes_the_draws(make_policy: Callable) -> None:
    policy = make_policy(3, 2)
    obs = np.random.default_rng(1).standard_normal((5, 3))
    first = policy.act(obs, np.random.default_rng(4))
    np.testing.assert_array_equal(first, policy.act(obs, np.random.default_rng(4)))
    assert not np.array_equal(first, policy.act(obs, np.random.default_rng(5)))
    rng = np.random.default_rng(4)
    assert not np.array_equal(policy.act(obs, rng), policy.act(obs, rng))
    np.testing.assert_array_equal(
        policy.act(obs, np.random.default_rng(4), deterministic=True),
        policy.act(obs, np.random.default_rng(5), deterministic=True),
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_observation_or_many(make_policy: Callable, dtype: type) -> None:
    policy = make_policy(3, 2)
    obs = np.random.default_rng(0).standard_normal((4, 3)).astype(dtype)
    one = policy.act(obs[2], np.random.default_rng(0), deterministic=True)
    many = policy.act(obs, np.random.default_rng(0), deterministic=True)
    assert (one.shape, many.shape) == ((2,), (4, 2))
    assert one.dtype == many.dtype == np.float32
    np.testing.assert_allclose(one, many[2], rtol=1e-5, atol=1e-6)
    assert policy.act(obs[0], np.random.default_rng(0)).shape == (2,)


def test_the_number_of_threads_changes_no_digit_of_an_action(make_policy: Callable) -> None:
    policy = make_policy(2, 2, hidden=(300, 300))
    for m in (1, 3, 5, 20, 100):
        obs = np.random.default_rng(m).uniform(-6, 6, (m, 2))
        actions = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            actions.append(policy.act(obs, np.random.default_rng(0)))
            assert torch.get_num_threads() == threads  # left as it was
        torch.set_num_threads(1)
        np.testing.assert_array_equal(*actions)


def test_a_responder_gives_the_policy_s_mean_and_spread_to_the_bit(make_policy: Callable) -> None:
    policy = make_policy(3, 2, hidden=(40, 50))
    policy.shift.copy_(torch.tensor([1.0, 0.0, -2.0]))
    policy.scale.copy_(torch.tensor([2.0, 1.0, 0.3]))
    obs = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)
    mean = policy.mean(torch.from_numpy(obs)).detach().numpy()
    respond, noise = policy.responder(), policy.noise((12,), np.random.default_rng(4))
    np.testing.assert_array_equal(respond(obs, None), mean)
    np.testing.assert_array_equal(respond(obs, noise), mean + noise * np.exp(np.float32(-0.5)))
    np.testing.assert_array_equal(respond(obs, noise), policy.act(obs, np.random.default_rng(4)))


# --- start --------------------------------------------------------------------------------------------------------


def test_initial_weights_are_xavier_and_depend_on_the_generator_alone(make_policy: Callable) -> None:
    policy = make_policy(2, 2, hidden=(300, 300), log_std=-1.5)
    weight = policy.layers[1].weight.detach().numpy()
    bound = np.sqrt(6 / 600)
    assert np.abs(weight).max() <= bound
    assert weight.std() == pytest.approx(bound / np.sqrt(3), rel=0.02)
    assert np.abs(policy.layers[1].bias.detach().numpy()).max() <= 1 / np.sqrt(300)
    np.testing.assert_array_equal(policy.log_std.detach().numpy(), [-1.5, -1.5])
    torch.manual_seed(123)
    twin = make_policy(2, 2, hidden=(300, 300), log_std=-1.5)
    assert all(torch.equal(a, b) for a, b in zip(policy.parameters(), twin.parameters(), strict=True))
    other = make_policy(2, 2, hidden=(300, 300), seed=1)
    assert not torch.equal(policy.layers[0].weight, other.layers[0].weight)


@pytest.mark.parametrize(
    "space",
    [
        Box(-6.0, 6.0, (2,), np.float64),
        Box(np.array([-1.2, -0.07]), np.array([0.45, 0.07]), dtype=np.float64),
        Box(-np.inf, np.inf, (2,), np.float64),
        Box(np.array([-1.0, -np.inf]), np.array([1.0, np.inf]), dtype=np.float64),
    ],
)
def test_the_zero_mean_start_makes_means_small_over_the_space(make_policy: Callable, space: Box) -> None:
    policy = make_policy(2, 1, hidden=(64, 64))
    bounded = np.isfinite(space.high)
    rng = np.random.default_rng(1)
    spread = rng.uniform(np.where(bounded, space.low, 0), np.where(bounded, space.high, 1), (2000, 2))
    obs = np.where(bounded, spread, rng.standard_normal((2000, 2)))

    def size() -> float:
        return float(np.sqrt(np.mean(policy.act(obs, rng, deterministic=True) ** 2)))

    before, log_std = size(), policy.log_std.detach().clone()
    policy.centre(space, np.random.default_rng(2), samples=1000)
    assert size() < 0.35 * before
    assert size() < 0.15
    assert torch.equal(policy.log_std, log_std)


# --- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [(), (3,), (300, 300), (4, 5, 6)])
def test_a_policy_comes_back_bit_for_bit(make_policy: Callable, tmp_path: Path, hidden: tuple[int, ...]) -> None:
    policy = make_policy(3, 2, hidden=hidden)
    policy.shift.copy_(torch.tensor([0.1, 0.2, 0.3]))
    path = tmp_path / "policy.safetensors"
    save_policy(policy, path)
    loaded = load_policy(path)
    assert loaded.widths == policy.widths
    assert loaded.state_dict().keys() == policy.state_dict().keys()
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in policy.state_dict().items())
    obs = np.random.default_rng(0).standard_normal((7, 3))
    np.testing.assert_array_equal(policy.act(obs, np.random.default_rng(1)), loaded.act(obs, np.random.default_rng(1)))
    again = tmp_path / "again.safetensors"
    save_policy(loaded, str(again))
    assert again.read_bytes() == path.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.safetensors", "policy.safetensors"]


@pytest.fixture
def good(make_policy: Callable, tmp_path: Path) -> Path:
    path = tmp_path / "policy.safetensors"
    save_policy(make_policy(2, 2, hidden=(4,)), path)
    return path


def test_a_truncated_file_is_refused_at_every_length(good: Path) -> None:
    data = good.read_bytes()
    for length in range(0, len(data), 7):
        good.write_bytes(data[:length])
        with pytest.raises(PolicyFileError):
            load_policy(good)


@given(data=st.binary(max_size=300))
def test_random_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "policy.safetensors"
    path.write_bytes(data)
    with pytest.raises(PolicyFileError):
        load_policy(path)


@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_changed_byte_gives_a_policy_or_an_error_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int
) -> None:
    path = tmp_path_factory.mktemp("changed") / "policy.safetensors"
    save_policy(GaussianPolicy(2, 2, (4,)), path)
    data = bytearray(path.read_bytes())
    data[at % len(data)] = byte
    path.write_bytes(data)
    try:
        policy = load_policy(path)
    except PolicyFileError:
        return
    assert policy.widths == (2, 4, 2)


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (Path.touch, (self.path,))


def test_a_pickle_in_disguise_is_refused_and_not_run(tmp_path: Path) -> None:
    mark, path = tmp_path / "executed", tmp_path / "policy.safetensors"
    for data in (pickle.dumps(Bomb(mark)), pickle.dumps({"log_std": Bomb(mark)}, protocol=0)):
        path.write_bytes(data)
        with pytest.raises(PolicyFileError):
            load_policy(path)
    torch.save({"log_std": Bomb(mark)}, path)
    with pytest.raises(PolicyFileError):
        load_policy(path)
    assert not mark.exists()


@pytest.mark.parametrize("missing", ["nowhere.safetensors", "no/such/directory/policy.safetensors", "."])
def test_a_missing_file_or_a_directory_is_refused(tmp_path: Path, missing: str) -> None:
    with pytest.raises(PolicyFileError, match="policy"):
        load_policy(tmp_path / missing)


def test_a_policy_is_not_written_where_there_is_no_directory(make_policy: Callable, tmp_path: Path) -> None:
    with pytest.raises(MepolError, match="cannot write"):
        save_policy(make_policy(), tmp_path / "missing" / "policy.safetensors")
    assert list(tmp_path.iterdir()) == []


def forge(path: Path, policy: GaussianPolicy, *, header: dict[str, str] | None, **tensors: torch.Tensor | None) -> None:
    """Write the policy's tensors, some replaced or left out (None), under any header."""
    state = {**policy.state_dict(), **tensors}
    safetensors.torch.save_file({name: t for name, t in state.items() if t is not None}, path, metadata=header)


def header(widths: object) -> dict[str, str]:
    return {"format": FORMAT, "widths": widths if isinstance(widths, str) else json.dumps(widths)}


def test_the_forger_can_write_a_true_policy(make_policy: Callable, tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    forge(path, make_policy(2, 2, hidden=(4,)), header=header([2, 4, 2]))
    assert load_policy(path).widths == (2, 4, 2)


@pytest.mark.parametrize(
    "widths",
    [
        [10**9, 10**9, 2],
        [65536] * 32,
        [2, 10**30, 2],
        "[2, " + "9" * 5000 + ", 2]",
        [2, -4, 2],
        [2, 0, 2],
        [2, 4.0, 2],
        [2, 4.5, 2],
        [True, 4, 2],
        [2, "4", 2],
        [2, None, 2],
        [2, [4], 2],
        {"0": 2, "1": 4},
        [2],
        [],
        [2] * 1000,
        [2, 4, 4, 2],
        [4, 2, 2],
        2,
        None,
        "",
        "{",
        "[2, 4, 2",
        "NaN",
        "[2, NaN, 2]",
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 20_000 + "1" + "}" * 20_000,
    ],
    ids=lambda w: str(w)[:24],
)
def test_forged_widths_are_refused(make_policy: Callable, tmp_path: Path, widths: object) -> None:
    path = tmp_path / "policy.safetensors"
    forge(path, make_policy(2, 2, hidden=(4,)), header=header(widths))
    with pytest.raises(PolicyFileError, match=r"policy\.safetensors"):
        load_policy(path)


@pytest.mark.parametrize(
    "foreign", [None, {}, {"format": "pt"}, {"format": "mepol-policy-0", "widths": "[2, 4, 2]"}, {"format": FORMAT}]
)
def test_a_foreign_header_is_refused(make_policy: Callable, tmp_path: Path, foreign: dict[str, str] | None) -> None:
    path = tmp_path / "policy.safetensors"
    forge(path, make_policy(2, 2, hidden=(4,)), header=foreign)
    with pytest.raises(PolicyFileError):
        load_policy(path)


@pytest.mark.parametrize(
    "tensors",
    [
        {"log_std": None},
        {"extra": torch.zeros(3)},
        {"log_std": torch.zeros(3)},
        {"log_std": torch.zeros(1, 2)},
        {"layers.0.weight": torch.zeros(2, 4)},
        {"log_std": torch.zeros(2, dtype=torch.float64)},
        {"log_std": torch.zeros(2, dtype=torch.int32)},
        {"log_std": torch.tensor([0.0, float("nan")])},
        {"shift": torch.tensor([float("inf"), 0.0])},
        {"layers.1.bias": torch.tensor([0.0, float("-inf")])},
    ],
    ids=str,
)
def test_other_tensors_are_refused(make_policy: Callable, tmp_path: Path, tensors: dict) -> None:
    path = tmp_path / "policy.safetensors"
    forge(path, make_policy(2, 2, hidden=(4,)), header=header([2, 4, 2]), **tensors)
    with pytest.raises(PolicyFileError, match=r"policy\.safetensors"):
        load_policy(path)


def test_a_header_that_promises_more_than_the_file_holds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    for size in (2**63, 2**40, 10_000):
        path.write_bytes(struct.pack("<Q", size) + b"{}" + b" " * 50)
        with pytest.raises(PolicyFileError):
            load_policy(path)
    entries = {
        "__metadata__": header([2, 2]),
        "log_std": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8 * 10**12]},
    }
    text = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"\0" * 8)
    with pytest.raises(PolicyFileError):
        load_policy(path)


def test_a_mirrored_policy_has_no_mean_and_learns_in_every_layer(make_policy: Callable) -> None:
    policy = make_policy(hidden=(12, 8))
    policy.mirror()
    states = torch.from_numpy(np.random.default_rng(0).uniform(-6, 6, (50, 2))).float()
    assert policy.mean(states).abs().max() <= 1e-6  # what cancels is summed in some order
    policy.log_prob(states, torch.ones(50, 2)).mean().backward()
    assert all(p.grad.abs().max() > 0 for p in policy.layers.parameters())
