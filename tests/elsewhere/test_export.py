"""A policy gives the same actions wherever it is opened, and what cannot go along is said."""

from __future__ import annotations

import importlib.util
import json

import gymnasium
import numpy as np
import onnxruntime
import pytest
import torch
from gymnasium.spaces import Box
from made_policies import SIZES, categorical, gaussian, means, squashed, states
from sb3_contrib import TRPO
from stable_baselines3 import PPO, SAC

import mepol
from mepol.cli import main
from mepol.elsewhere import EXPORTERS, export
from mepol.elsewhere.network import KINDS, Place
from mepol.errors import ConfigError, PolicyFileError, RunError
from mepol.sampling.actors import Mixture, SquashedPolicy, UniformActor

ATOL = 2e-5  # float32 sums of 400 terms in another order, at actions of order one; with folded scaling too
ARRAYS = ("onnx", "torchscript", "numpy")


def numpy_module(path):
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def opened(to, files):
    """(M, S) -> (M, A) means of what was written, by the other program itself."""
    if to == "onnx":
        session = onnxruntime.InferenceSession(files[0].read_bytes(), providers=["CPUExecutionProvider"])
        return lambda obs: session.run(["mean"], {"obs": obs.astype(np.float32)})[0]
    if to == "torchscript":
        module = torch.jit.load(files[0])
        return lambda obs: module(torch.from_numpy(obs.astype(np.float32))).numpy()
    if to == "numpy":
        return numpy_module(files[0]).mean
    model = {"sb3-ppo": PPO, "sb3-trpo": TRPO, "sb3-sac": SAC}[to].load(files[0], device="cpu")
    return lambda obs: model.predict(obs.astype(np.float32), deterministic=True)[0]


def wide(policy):
    """Spaces in which nothing is clipped."""
    state_dim, action_dim = policy.widths[0], policy.widths[-1]
    return Place(Box(-np.inf, np.inf, (state_dim,), np.float32), Box(-100.0, 100.0, (action_dim,), np.float32))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("to", [*ARRAYS, "sb3-ppo", "sb3-trpo"])
def test_means_are_equal(to, size, tmp_path):
    policy = gaussian(size)
    files = export(policy, to, tmp_path / "policy", place=wide(policy))
    for rows in (1, 200):  # the number of rows is free
        obs = states(policy, rows)
        np.testing.assert_allclose(opened(to, files)(obs), means(policy, obs), rtol=0, atol=ATOL)


@pytest.mark.parametrize("to", ARRAYS)
def test_a_squashed_policy_keeps_its_tanh(to, tmp_path):
    policy = squashed()
    obs = states(policy)
    found = opened(to, export(policy, to, tmp_path / "policy"))(obs)
    np.testing.assert_allclose(found, means(policy, obs), rtol=0, atol=ATOL)
    assert np.ptp(found[:, 0]) > 1  # the bounds were reached for, not a constant


def test_a_policy_that_sac_learnt_is_copied_exactly(tmp_path):
    policy = squashed()
    place = Place(Box(-np.inf, np.inf, (4,), np.float32), Box(policy.low.numpy(), policy.high.numpy()))
    files = export(policy, "sb3-sac", tmp_path / "policy", place=place)
    assert [f.name for f in files] == ["policy.zip"]
    obs = states(policy)
    np.testing.assert_allclose(opened("sb3-sac", files)(obs), means(policy, obs), rtol=0, atol=ATOL)


def test_the_spread_comes_along(tmp_path):
    policy = gaussian("ant", correlation=0.75)
    obs, std = states(policy), np.exp(policy.log_std.detach().numpy())
    for name in ("sb3-ppo", "sb3-trpo"):
        model = {"sb3-ppo": PPO, "sb3-trpo": TRPO}[name].load(
            export(policy, name, tmp_path / name, place=wide(policy))[0], device="cpu"
        )
        np.testing.assert_allclose(model.policy.log_std.detach().exp().numpy(), std, rtol=1e-6)
        assert model.mepol["noise_correlation"] == 0.75
        actions = torch.from_numpy(policy.act(obs, np.random.default_rng(1)))
        with torch.no_grad():
            theirs = model.policy.get_distribution(torch.from_numpy(obs).float()).log_prob(actions)
            ours = policy.log_prob(torch.from_numpy(obs).float(), actions)
        np.testing.assert_allclose(theirs, ours, atol=1e-3)  # differences of squares over 8 actions
    session = onnxruntime.InferenceSession(export(policy, "onnx", tmp_path / "a")[0].read_bytes())
    np.testing.assert_allclose(session.run(["std"], {"obs": obs.astype(np.float32)})[0], std, rtol=1e-6)
    script = torch.jit.load(export(policy, "torchscript", tmp_path / "b")[0])
    noise = np.random.default_rng(2).standard_normal((200, 8), dtype=np.float32)
    found = script.sample(torch.from_numpy(obs).float(), torch.from_numpy(noise)).numpy()
    np.testing.assert_allclose(found, policy.responder()(obs, noise), atol=ATOL)


def test_numpy_s_act_carries_correlated_noise_as_the_policy_does(tmp_path):
    policy = gaussian("tiny", correlation=0.9)
    module = numpy_module(export(policy, "numpy", tmp_path / "policy.py")[0])
    ours, theirs, noise = np.random.default_rng(4), np.random.default_rng(4), None
    carrying = policy.begin(5, ours)
    for t in range(4):
        obs = states(policy, 5) + t
        actions, noise = module.act(obs, theirs, noise)
        np.testing.assert_allclose(actions, carrying.act(obs, ours), atol=ATOL)
    assert len((tmp_path / "policy.py").read_text().splitlines()) <= 30
    assert "mepol" not in "".join(
        line for line in module.__loader__.get_data(module.__file__).decode().split('"""')[2:]
    )


def facts(to, file):
    if to == "onnx":
        return json.loads(onnxruntime.InferenceSession(file.read_bytes()).get_modelmeta().custom_metadata_map["mepol"])
    if to == "torchscript":
        extra = {"mepol.json": ""}
        torch.jit.load(file, _extra_files=extra)
        return json.loads(extra["mepol.json"])
    if to == "numpy":
        return json.loads(np.load(file.with_suffix(".npz"))["about"].tobytes())
    return {"sb3-ppo": PPO, "sb3-trpo": TRPO, "sb3-sac": SAC}[to].load(file, device="cpu").mepol


@pytest.mark.parametrize("to", EXPORTERS)
def test_every_file_says_in_which_units_it_acts(to, pendulum, grid, tmp_path):
    told = facts(to, pendulum.export(to, tmp_path / "pendulum", steps=40)[0])
    assert (told["action_low"], told["action_high"], told["unit_actions"]) == ([-1.0], [1.0], True)
    assert (told["env"], told["noise_correlation"]) == ("Pendulum-v1", 0.5)
    told = facts(to, grid.export(to, tmp_path / "grid", steps=40)[0])
    space = gymnasium.make("mepol/GridWorld-v0").action_space
    assert (told["action_low"], told["action_high"]) == (space.low.tolist(), space.high.tolist())
    assert (told["unit_actions"], told["observation_names"]) == (False, ["x", "y"])


def test_sac_begins_with_a_memory_that_the_policy_filled(pendulum, tmp_path):
    files = pendulum.export("sb3-sac", tmp_path / "sac", steps=70)
    assert [f.name for f in files] == ["sac.zip", "sac.replay.pkl"]
    model = SAC.load(files[0], device="cpu")
    model.load_replay_buffer(files[1])
    memory = model.replay_buffer
    assert memory.size() == 70
    assert np.abs(memory.actions[:70]).max() <= 1
    inside = [t for t in range(69) if not memory.dones[t, 0]]
    np.testing.assert_array_equal(memory.observations[[t + 1 for t in inside]], memory.next_observations[inside])
    assert memory.dones[:70, 0].sum() == memory.timeouts[:70, 0].sum() == 3  # 30 + 30 + 10 steps
    env = gymnasium.wrappers.RescaleAction(gymnasium.make("Pendulum-v1"), np.float32(-1), np.float32(1))
    obs, replayed = memory.observations[0, 0], []
    env.reset(seed=0)
    env.unwrapped.state = np.array([np.arctan2(obs[1], obs[0]), obs[2]])
    for t in range(29):
        replayed.append(env.step(memory.actions[t, 0])[0])
    np.testing.assert_allclose(replayed, memory.next_observations[:29, 0], atol=1e-3)  # the environment agrees


def test_a_goal_rewards_the_memory(grid, tmp_path, monkeypatch):
    """A goal that a walk from the corner (-6, -6) soon meets; reward 1 there, an end and no time limit."""
    (tmp_path / "my_goals.py").write_text("def away(states):\n    return states[:, 0] > -5.5\n")
    monkeypatch.chdir(tmp_path)
    model = SAC.load(grid.export("sb3-sac", "sac", steps=200, goal="my_goals:away")[0], device="cpu")
    model.load_replay_buffer("sac.replay.pkl")
    memory = model.replay_buffer
    met = memory.next_observations[:200, 0, 0] > -5.5
    assert 0 < met.sum() < 200
    np.testing.assert_array_equal(memory.rewards[:200, 0], met)
    np.testing.assert_array_equal((memory.dones * (1 - memory.timeouts))[:200, 0], met)


def test_what_cannot_be_exported_is_one_sentence(tmp_path):
    mixture = Mixture(UniformActor(np.zeros(2, np.float32), np.ones(2, np.float32)), (), np.ones(1))
    for to in EXPORTERS:
        with pytest.raises(PolicyFileError, match="only GaussianPolicy, CategoricalPolicy and SquashedPolicy have"):
            export(mixture, to, tmp_path / "x")
    with pytest.raises(PolicyFileError, match="4 skills"):
        export(SquashedPolicy(2, 1, (4,), skills=4), "onnx", tmp_path / "x")
    with pytest.raises(PolicyFileError, match=r"use sb3-sac"):
        export(squashed(), "sb3-ppo", tmp_path / "x")
    with pytest.raises(ConfigError, match="needs a bounded action space"):
        export(gaussian("tiny"), "sb3-ppo", tmp_path / "x")
    with pytest.raises(ConfigError, match="sb3-sac needs a run"):
        export(gaussian("tiny"), "sb3-sac", tmp_path / "x", place=wide(gaussian("tiny")))
    with pytest.raises(ConfigError, match="did you mean 'onnx'"):
        export(gaussian("tiny"), "onx", tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
    assert len(KINDS) == 3


def test_nothing_is_overwritten(tmp_path):
    export(gaussian("tiny"), "numpy", tmp_path / "a.py")
    before = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.py").unlink()
    with pytest.raises(RunError, match=r"a\.npz is there already"):
        export(gaussian("ant"), "numpy", tmp_path / "a.py")
    assert (tmp_path / "a.npz").read_bytes() == before
    assert not (tmp_path / "a.py").exists()


def test_the_command_exports_runs_and_policy_files(grid_path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(grid_path), "--to", "onnx", "--which", "best", "--out", "best.onnx"]) == 0
    assert capsys.readouterr().out == "best.onnx\n"
    assert main(["export", str(grid_path / "policy.safetensors"), "--to", "torchscript"]) == 0
    assert capsys.readouterr().out == "policy.pt\n"
    policy = mepol.open(grid_path).policy
    obs = states(policy)
    np.testing.assert_allclose(
        torch.jit.load("policy.pt")(torch.from_numpy(obs).float()).numpy(), means(policy, obs), atol=ATOL
    )
    assert main(["export", str(grid_path), "--to", "onnx", "--out", "best.onnx"]) == 1
    assert "best.onnx is there already" in capsys.readouterr().err
    assert main(["export", str(grid_path / "policy.safetensors"), "--to", "numpy", "--which", "best"]) == 2
    assert main(["export", "nowhere", "--to", "numpy"]) == 1
    assert capsys.readouterr().err.count("\n") == 2


# --- discrete actions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choices", [(4,), (3, 2)])
def test_choices_are_equal_wherever_they_are_opened(choices, tmp_path):
    policy = categorical(choices)
    obs = states(policy)
    best = policy.predict(obs, deterministic=True)[0]
    noise = np.random.default_rng(5).random((200, len(choices)), dtype=np.float32)
    tensor = torch.from_numpy(obs).float()
    with torch.no_grad():
        logits = policy.output(tensor).numpy()
        truth = [part.softmax(-1).numpy() for part in policy.logits(tensor)]

    session = onnxruntime.InferenceSession(export(policy, "onnx", tmp_path / "a")[0].read_bytes())
    found, action = session.run(["logits", "action"], {"obs": obs.astype(np.float32)})
    np.testing.assert_allclose(found, logits, atol=ATOL)
    np.testing.assert_array_equal(action.reshape(best.shape), best)

    script = torch.jit.load(export(policy, "torchscript", tmp_path / "b")[0])
    np.testing.assert_allclose(script(tensor).numpy(), logits, atol=ATOL)
    np.testing.assert_array_equal(script.best(tensor).numpy().reshape(best.shape), best)
    np.testing.assert_array_equal(script.sample(tensor, torch.from_numpy(noise)), policy.responder()(obs, noise))

    module = numpy_module(export(policy, "numpy", tmp_path / "c")[0])
    for ours, theirs in zip(truth, module.probabilities(obs), strict=True):
        np.testing.assert_allclose(theirs, ours, atol=ATOL)
    np.testing.assert_array_equal(module.best(obs), best)
    assert np.shape(module.act(obs[0], np.random.default_rng(0))) == np.shape(policy.predict(obs[0])[0])
    drawn = np.reshape(module.act(np.repeat(obs[:1], 20000, 0), np.random.default_rng(1)), (20000, -1))
    share = np.bincount(drawn[:, 0], minlength=choices[0]) / 20000
    assert np.abs(share - truth[0][0]).max() < 4.5 * np.sqrt(0.25 / 20000)

    for name, kind in (("sb3-ppo", PPO), ("sb3-trpo", TRPO)):  # a file alone knows the actions: they are counted
        model = kind.load(export(policy, name, tmp_path / name)[0], device="cpu")
        np.testing.assert_array_equal(model.predict(obs.astype(np.float32), deterministic=True)[0], best)
        with torch.no_grad():
            actions = torch.from_numpy(policy.responder()(obs, noise))
            theirs = model.policy.get_distribution(tensor).log_prob(actions[:, 0] if len(choices) == 1 else actions)
            np.testing.assert_allclose(theirs, policy.log_prob(tensor, actions), atol=1e-4)
        assert model.mepol["choices"] == list(choices)
    with pytest.raises(PolicyFileError, match="discrete actions cannot be exported to sb3-sac: SAC has none; use sb3"):
        export(policy, "sb3-sac", tmp_path / "d")


def test_a_run_of_choices_goes_on_in_stable_baselines3(cart, tmp_path):
    model = PPO.load(cart.export("sb3-ppo", tmp_path / "cart")[0], env=gymnasium.make("CartPole-v1"), device="cpu")
    obs = cart.states(trajectories=3)[:, :-1].reshape(-1, 4)
    np.testing.assert_array_equal(
        model.predict(obs.astype(np.float32), deterministic=True)[0], cart.policy.predict(obs, deterministic=True)[0]
    )
    told = facts("onnx", cart.export("onnx", tmp_path / "told")[0])
    assert (told["choices"], told["action_low"], told["action_high"], told["unit_actions"]) == ([2], [0], [1], False)
