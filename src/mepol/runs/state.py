"""All that a learner has learnt, as named tensors: networks, optimiser moments, loose tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from mepol.algorithm import Stateful
from mepol.errors import CheckpointError, CollapseError
from mepol.runs.tensors import Layout

MOMENTS = ("exp_avg", "exp_avg_sq", "step")  # Adam's, the only optimiser in use that keeps any
DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.bool: "BOOL"}
EXTRA = "extra."
"""How the names of what a file may lack begin."""
MAX_EXTRA = 1 << 24  # values of one such tensor: the cells of the finest grid


@dataclass(frozen=True)
class State:
    """The parts of a learner that change as it learns; the tensors are the learner's own."""

    modules: Mapping[str, Stateful]
    optimisers: Mapping[str, torch.optim.Optimizer]
    loose: Mapping[str, Tensor] = field(default_factory=dict)
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    """What is kept beside the learner, and a checkpoint may lack: an earlier version's does, and one that was written
    when a name meant something else. Then all of them stay as they are."""

    def beside(self, other: State) -> State:
        """Both, whose names differ."""
        return State(
            {**self.modules, **other.modules},
            {**self.optimisers, **other.optimisers},
            {**self.loose, **other.loose},
            {**self.extra, **other.extra},
        )

    def tensors(self, moment: str) -> dict[str, Tensor]:
        """Everything by name, to be written. Raises CollapseError, naming the `moment`, when it is not finite."""
        tensors = {**self._fixed(), **self._moments(), **self._extra()}
        if bad := [name for name, t in tensors.items() if not bool(torch.isfinite(t).all())]:
            raise CollapseError(f"{bad[0]} is NaN or infinite before {moment}; lower the learning rate or the KL bound")
        return {name: t.detach() for name, t in tensors.items()}

    def check(self, layout: Layout, path: Path) -> None:
        """A file's names, shapes and types must be the learner's own, with all or none of each parameter's moments.

        What is extra may be there or not, and be somebody else's: it is bounded in size, and nothing else.
        """
        allowed = {name: (list(t.shape), DTYPES[t.dtype]) for name, t in self._fixed().items()}
        required = set(allowed)
        for prefix, _, parameter in self._parameters():
            shapes = {"exp_avg": list(parameter.shape), "exp_avg_sq": list(parameter.shape), "step": []}
            own = {prefix + moment: (shape, "F32") for moment, shape in shapes.items()}
            allowed |= own
            if not own.keys().isdisjoint(layout):
                required |= set(own)
        for name, entry in layout.items():
            if name not in allowed and name.startswith(EXTRA) and math.prod(entry[0]) <= MAX_EXTRA:
                continue
            if name not in allowed or entry != allowed[name]:
                raise CheckpointError(f"{path} does not fit this run: unexpected tensor {name!r}")
        if missing := required - set(layout):
            raise CheckpointError(f"{path} lacks {sorted(missing)[0]!r}")

    @torch.no_grad()
    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over the content of a file that `check` has let pass."""
        for name, target in self._fixed().items():
            target.copy_(tensors[name])
        for prefix, optimiser, parameter in self._parameters():
            optimiser.state.pop(parameter, None)
            if own := {moment: tensors[prefix + moment] for moment in MOMENTS if prefix + moment in tensors}:
                optimiser.state[parameter] = own
        if all(_is_like(tensors.get(name), target) for name, target in self._extra().items()):
            for name, target in self._extra().items():
                target.copy_(tensors[name])

    def _fixed(self) -> dict[str, Tensor]:
        """Tensors that are always there."""
        networks = {f"{m}.{name}": t for m, module in self.modules.items() for name, t in module.state_dict().items()}
        return {**networks, **self.loose}

    def _extra(self) -> dict[str, Tensor]:
        """Tensors that may be missing in a file."""
        return {EXTRA + name: tensor for name, tensor in self.extra.items()}

    def _moments(self) -> dict[str, Tensor]:
        """Tensors of the parameters that have been stepped."""
        return {
            prefix + name: value
            for prefix, optimiser, parameter in self._parameters()
            for name, value in optimiser.state.get(parameter, {}).items()
        }

    def _parameters(self) -> list[tuple[str, torch.optim.Optimizer, Tensor]]:
        """(prefix of its moments, optimiser, parameter) of every parameter that Adam moves."""
        return [
            (f"optimiser.{name}.{i}.", optimiser, parameter)
            for name, optimiser in self.optimisers.items()
            if isinstance(optimiser, torch.optim.Adam)
            for i, parameter in enumerate(p for group in optimiser.param_groups for p in group["params"])
        ]


def _is_like(found: Tensor | None, wanted: Tensor) -> bool:
    return found is not None and (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
