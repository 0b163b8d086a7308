"""A policy as TorchScript: `forward(obs)` gives the mean, `sample(obs, noise)` adds the spread.

Of a policy of choices `forward` gives the logits of all side by side, `best(obs)` the likeliest actions, and `sample`
those that uniform noise in [0, 1) draws.
"""

from __future__ import annotations

import io
import json
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from mepol.elsewhere.network import Network


class _Script(nn.Module):
    """The mean as layers and buffers, which TorchScript keeps."""

    shift: Tensor
    scale: Tensor
    low: Tensor
    high: Tensor
    log_std: Tensor

    def __init__(self, net: Network) -> None:
        super().__init__()
        self.net = _layers(net)
        self.squashed = net.squash is not None
        low, high = net.squash or (net.layers[-1][1], net.layers[-1][1])
        log_std = torch.full((net.action_dim,), -torch.inf) if net.log_std is None else torch.from_numpy(net.log_std)
        for name, value in (
            ("shift", torch.from_numpy(net.shift)),
            ("scale", torch.from_numpy(net.scale)),
            ("low", torch.from_numpy(low)),
            ("high", torch.from_numpy(high)),
            ("log_std", log_std),
        ):
            self.register_buffer(name, value)

    def forward(self, obs: Tensor) -> Tensor:
        """(..., S) float32 observations -> (..., A) mean actions."""
        mean: Tensor = self.net((obs - self.shift) / self.scale)
        if self.squashed:
            mean = (self.high + self.low) / 2 + (self.high - self.low) / 2 * torch.tanh(mean)
        return mean

    def sample(self, obs: Tensor, noise: Tensor) -> Tensor:
        """(..., S) observations, (..., A) standard normal noise -> (..., A) actions; the mean where no spread is."""
        return self.forward(obs) + torch.exp(self.log_std) * noise


class _Choices(nn.Module):
    """The logits as layers and buffers, and what is chosen by them."""

    shift: Tensor
    scale: Tensor

    def __init__(self, net: Network) -> None:
        super().__init__()
        self.net, self.choices = _layers(net), list(net.choices or ())
        self.register_buffer("shift", torch.from_numpy(net.shift))
        self.register_buffer("scale", torch.from_numpy(net.scale))

    def forward(self, obs: Tensor) -> Tensor:
        """(..., S) float32 observations -> (..., sum of all n) logits."""
        logits: Tensor = self.net((obs - self.shift) / self.scale)
        return logits

    def best(self, obs: Tensor) -> Tensor:
        """(..., S) observations -> (..., A) int64, the likeliest of each choice."""
        return torch.stack([part.argmax(-1) for part in torch.split(self.forward(obs), self.choices, -1)], -1)

    def sample(self, obs: Tensor, noise: Tensor) -> Tensor:
        """(..., S) observations, (..., A) uniform noise in [0, 1) -> (..., A) int64 actions, drawn by it."""
        taken = []
        for i, part in enumerate(torch.split(self.forward(obs).double(), self.choices, -1)):
            mass = (part - part.amax(-1, keepdim=True)).exp().cumsum(-1)
            taken.append((mass > noise[..., i : i + 1] * mass[..., -1:]).int().argmax(-1))
        return torch.stack(taken, -1)


def _layers(net: Network) -> nn.Sequential:
    layers: list[nn.Module] = []
    for weight, bias in net.layers:
        layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta")  # torch's generator stays as it was
        layer.weight, layer.bias = (nn.Parameter(torch.from_numpy(array)) for array in (weight, bias))
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def script_bytes(net: Network, facts: dict[str, Any]) -> bytes:
    """The module as a file that `torch.jit.load` opens; `facts` are its extra file `mepol.json`."""
    module = (_Script(net) if net.choices is None else _Choices(net)).requires_grad_(False).eval()
    file = io.BytesIO()
    with warnings.catch_warnings():  # torch advises its authors to other formats
        warnings.simplefilter("ignore", DeprecationWarning)
        compiled = torch.jit.trace_module(module, _examples(net), check_trace=False)  # type: ignore[no-untyped-call]
        torch.jit.save(compiled, file, _extra_files={"mepol.json": json.dumps(facts)})
    return file.getvalue()


def _examples(net: Network) -> dict[str, Any]:
    obs, noise = torch.zeros(2, net.state_dim), torch.zeros(2, net.action_dim)
    return {"forward": obs, "sample": (obs, noise), **({} if net.choices is None else {"best": obs})}
