"""A policy as twenty lines of NumPy beside an .npz of arrays: nothing of ours is needed to run it."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from mepol.elsewhere.network import Network

SOURCE = '''\
"""A policy of mepol in plain NumPy; its arrays lie in the .npz of the same name. mean(obs), act(obs, rng)."""

from pathlib import Path

import numpy as np

P = dict(np.load(Path(__file__).with_suffix(".npz"), allow_pickle=False))
RHO, STD = float(P["correlation"]), P["std"]


def mean(obs):
    """(S,) or (M, S) observations -> (A,) or (M, A) mean actions."""
    x = (np.asarray(obs, np.float32) - P["shift"]) / P["scale"]
    for i in range(int(P["layers"])):
        x = (x if i == 0 else np.maximum(x, 0)) @ P[f"weight.{i}"].T + P[f"bias.{i}"]
    return (P["high"] + P["low"]) / 2 + (P["high"] - P["low"]) / 2 * np.tanh(x) if "low" in P else x


def act(obs, rng, noise=None):
    """Actions, and the noise to hand in at the next step of the same trajectory (None at its first)."""
    m = mean(obs)
    xi = rng.standard_normal(m.shape, dtype=np.float32)
    noise = xi if noise is None else np.float32(RHO) * noise + np.float32(np.sqrt(1 - RHO**2)) * xi
    return m + STD * noise, noise
'''
"""The same for every policy: no text of a run becomes code."""
CHOICES = '''\
"""A policy of mepol in plain NumPy; its arrays lie in the .npz of the same name. best(obs), act(obs, rng)."""

from pathlib import Path

import numpy as np

P = dict(np.load(Path(__file__).with_suffix(".npz"), allow_pickle=False))


def probabilities(obs):
    """(S,) or (M, S) observations -> for each choice the probabilities (n,) or (M, n) of 0 .. n-1."""
    x = (np.asarray(obs, np.float32) - P["shift"]) / P["scale"]
    for i in range(int(P["layers"])):
        x = (x if i == 0 else np.maximum(x, 0)) @ P[f"weight.{i}"].T + P[f"bias.{i}"]
    parts = [np.exp(x - x.max(-1, keepdims=True)) for x in np.split(x, np.cumsum(P["choices"])[:-1], axis=-1)]
    return [part / part.sum(-1, keepdims=True) for part in parts]


def best(obs):
    """The likeliest actions: (A,) or (M, A) whole numbers from 0; a number per row where A is one."""
    return _shaped([p.argmax(-1) for p in probabilities(obs)])


def act(obs, rng):
    """Actions drawn by their probabilities."""
    return _shaped([(p.cumsum(-1) > rng.random((*p.shape[:-1], 1)) * p.sum(-1, keepdims=True)).argmax(-1)
                    for p in probabilities(obs)])


def _shaped(taken):
    return taken[0] if len(taken) == 1 else np.stack(taken, -1)
'''
"""The same for policies of choices."""


def numpy_files(net: Network, facts: dict[str, Any]) -> dict[str, bytes]:
    """Source and arrays; `facts` are the array `about`, JSON as UTF-8 bytes."""
    std = np.zeros(net.action_dim, dtype=np.float32) if net.log_std is None else np.exp(net.log_std)
    arrays: dict[str, Any] = {"shift": net.shift, "scale": net.scale}
    arrays |= {"std": std} if net.choices is None else {"choices": np.array(net.choices)}
    arrays |= {"layers": np.int64(len(net.layers)), "correlation": np.float64(net.correlation)}
    for i, (weight, bias) in enumerate(net.layers):
        arrays |= {f"weight.{i}": weight, f"bias.{i}": bias}
    if net.squash is not None:
        arrays |= {"low": net.squash[0], "high": net.squash[1]}
    arrays["about"] = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return {".py": (SOURCE if net.choices is None else CHOICES).encode(), ".npz": file.getvalue()}
