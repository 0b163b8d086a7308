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


def numpy_files(net: Network, facts: dict[str, Any]) -> dict[str, bytes]:
    """Source and arrays; `facts` are the array `about`, JSON as UTF-8 bytes."""
    std = np.zeros(net.action_dim, dtype=np.float32) if net.log_std is None else np.exp(net.log_std)
    arrays: dict[str, Any] = {"shift": net.shift, "scale": net.scale, "std": std}
    arrays |= {"layers": np.int64(len(net.layers)), "correlation": np.float64(net.correlation)}
    for i, (weight, bias) in enumerate(net.layers):
        arrays |= {f"weight.{i}": weight, f"bias.{i}": bias}
    if net.squash is not None:
        arrays |= {"low": net.squash[0], "high": net.squash[1]}
    arrays["about"] = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return {".py": SOURCE.encode(), ".npz": file.getvalue()}
