"""Mirror images: networks that do in a mirrored state what the mirrored action is.

A symmetry maps states and actions and leaves the environment as it is: where an action leads from s to s', its image
leads from the image of s to the image of s'. Ours exchange coordinates and turn the signs of some: left leg and right
leg, y and -y. Where starts are as likely as their images a policy that has the symmetry too can be as good as any: the
mean of a policy's state distribution and of its image has at least the entropy of either. And what it learns on one
side it knows on the other.

A plain ReLU network has the symmetry by its weights alone. The units of a hidden layer come in groups of images of each
other, and a weight equals the one between the images of its two ends, up to sign. `tie` draws weights together like
that, and the gradients of each step, so that they stay together to the last bit under any optimiser that works element
by element. For files, exports and the learners of tasks it is a network like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from mepol.errors import ConfigError
from mepol.settings import require

Evened = Callable[[Tensor], Tensor]
"""Makes a tensor its mean over all images."""


@dataclass(frozen=True)
class Mirror:
    """(n,) values -> their image: sign[i] times value index[i]. The image of an image is what it was.

    >>> from mepol.algorithm import Mirror
    >>> Mirror.of(("x", "left", "right"), exchanged={"left": "right"}, turned={"x"})
    Mirror(index=(0, 2, 1), sign=(-1, 1, 1))
    """

    index: tuple[int, ...]
    sign: tuple[int, ...]

    def __post_init__(self) -> None:
        index, sign = self.index, self.sign
        fits = len(index) == len(sign) and all(0 <= i < len(index) for i in index) and set(sign) <= {1, -1}
        if not fits or any(index[j] != i or sign[j] != sign[i] for i, j in enumerate(index)):
            raise ConfigError(
                f"index {index} and sign {sign} are no mirror: twice in it, every value must be what it was"
            )

    @staticmethod
    def of(names: Sequence[str], *, exchanged: Mapping[str, str] | None = None, turned: Collection[str] = ()) -> Mirror:
        """By the names of the values: pairs that change places, and those whose sign turns (wherever they go)."""
        pairs = dict(exchanged or {})
        partner = {**pairs, **{b: a for a, b in pairs.items()}}
        if unknown := (set(partner) | set(turned)) - set(names):
            raise ConfigError(f"a mirror names {', '.join(sorted(unknown))}, which are none of {', '.join(names)}")
        index = tuple(names.index(partner.get(name, name)) for name in names)
        return Mirror(index, tuple(-1 if name in turned else 1 for name in names))

    def image(self, values: Tensor, dim: int = -1) -> Tensor:
        """Of a tensor whose dimension `dim` has the n values."""
        index, signs = self._tensors
        shape = [1] * values.ndim
        shape[dim] = len(self.sign)
        return values.index_select(dim, index) * signs.to(values.dtype).view(shape)

    @cached_property
    def _tensors(self) -> tuple[Tensor, Tensor]:
        """Index and signs, made once: every gradient is mirrored."""
        return torch.tensor(self.index), torch.tensor(self.sign, dtype=torch.float32)

    def after(self, other: Mirror) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Index and sign of the image of what `other` makes."""
        index = tuple(other.index[i] for i in self.index)
        return index, tuple(s * other.sign[i] for s, i in zip(self.sign, self.index, strict=True))


@dataclass(frozen=True)
class Symmetry:
    """A mirror of the S coordinates of a state, and the one of the A actions that goes with it."""

    states: Mirror
    actions: Mirror


def require_commuting(symmetries: Sequence[Symmetry]) -> None:
    """ConfigError unless it does not matter in which order one looks into two of these mirrors."""
    for a in symmetries:
        for b in symmetries:
            pairs = ((a.states, b.states), (a.actions, b.actions))
            if any(one.after(other) != other.after(one) for one, other in pairs):
                raise ConfigError(
                    "two of the environment's symmetries give other images in the other order: leave one out"
                )


def tie(layers: Iterable[nn.Module], symmetries: Sequence[Symmetry]) -> None:
    """Make linear layers from states to actions symmetric, and keep them so; what is between them bends values alike.

    Weights stay as wide as they were drawn; those that are symmetric already stay what they are. Without symmetries
    layers stay as they are.
    """
    _tie(layers, [one.states for one in symmetries], [one.actions for one in symmetries])


def tie_value(layers: Iterable[nn.Module], symmetries: Sequence[Symmetry]) -> None:
    """The same of layers from states to one value, which is then that of all images."""
    _tie(layers, [one.states for one in symmetries], [Mirror((0,), (1,))] * len(symmetries))


def is_tied(layers: Iterable[nn.Module], symmetries: Sequence[Symmetry]) -> bool:
    """Whether layers from states to actions are symmetric as `tie` makes them; those of other widths are not."""
    *hidden, _ = [layer.out_features for layer in layers if isinstance(layer, nn.Linear)]
    if any(width % _group(len(symmetries)) for width in hidden):
        return False
    sides = [one.states for one in symmetries], [one.actions for one in symmetries]
    return all(torch.equal(evened(parameter), parameter) for parameter, evened in _evenings(layers, *sides))


def keep_alike(spread: Tensor, symmetries: Sequence[Symmetry]) -> None:
    """Keep one value per action, such as a spread, equal to that of the action's images; a sign does not matter."""
    evened = partial(_among, mirrors=[_unsigned(one.actions) for one in symmetries])
    with torch.no_grad():
        spread.copy_(evened(spread))
    spread.register_hook(evened)  # type: ignore[no-untyped-call]


@torch.no_grad()
def even_inputs(shift: Tensor, scale: Tensor, symmetries: Sequence[Symmetry]) -> None:
    """Make (S,) shift and scale of a network's input those of its images too, in place."""
    shift.copy_(_among(shift, [one.states for one in symmetries]))
    scale.copy_(_among(scale, [_unsigned(one.states) for one in symmetries]))


def _tie(layers: Iterable[nn.Module], inputs: Sequence[Mirror], outputs: Sequence[Mirror]) -> None:
    """The image of an input is to give the image of the output, for each of n mirrors of both."""
    widening = math.sqrt(2.0 ** len(inputs))  # a mean of so many that were drawn is narrower
    for parameter, evened in _evenings(layers, inputs, outputs) if inputs else ():
        with torch.no_grad():
            if not torch.equal(evened(parameter), parameter):
                parameter.copy_(evened(parameter) * widening)
        parameter.register_hook(evened)  # type: ignore[no-untyped-call]


def _evenings(
    layers: Iterable[nn.Module], inputs: Sequence[Mirror], outputs: Sequence[Mirror]
) -> Iterator[tuple[Tensor, Evened]]:
    """Each parameter of the linear layers, and what makes a tensor like it symmetric."""
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    units = [_units(layer.out_features, len(inputs)) for layer in linear[:-1]]
    for layer, before, after in zip(linear, (inputs, *units), (*units, outputs), strict=True):
        yield layer.weight, partial(_between, before=before, after=after)
        yield layer.bias, partial(_among, mirrors=after)


def _between(weight: Tensor, before: Sequence[Mirror], after: Sequence[Mirror]) -> Tensor:
    """(out, in) weights, each the mean over the pairs of images of its ends.

    One mirror after the other, so that sums of images add the same pairs: they are equal to the last bit.
    """
    for inner, outer in zip(before, after, strict=True):
        weight = (weight + outer.image(inner.image(weight, 1), 0)) / 2
    return weight


def _among(values: Tensor, mirrors: Sequence[Mirror]) -> Tensor:
    """(n,) values, each the mean over its images."""
    for mirror in mirrors:
        values = (values + mirror.image(values)) / 2
    return values


def _unsigned(mirror: Mirror) -> Mirror:
    return Mirror(mirror.index, (1,) * len(mirror.sign))


def _units(width: int, mirrors: int) -> list[Mirror]:
    """How the units of a hidden layer change places: groups of 2^mirrors, in which each mirror turns one bit."""
    group = _group(mirrors)
    require(width % group == 0, "hidden", width, f"a multiple of {group} with {mirrors} symmetries")
    return [Mirror(tuple(unit ^ (1 << bit) for unit in range(width)), (1,) * width) for bit in range(mirrors)]


def _group(mirrors: int) -> int:
    """What the width of a hidden layer is a multiple of: halves, as `ReluNetwork.mirror` has them, of whole groups."""
    return 1 << (mirrors + 1)
