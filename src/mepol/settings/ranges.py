"""What a setting may be, beside its field: `k: Annotated[int, at_least(1)] = 4`, and one `check` of them all."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from functools import cache
from itertools import pairwise
from typing import Any, Protocol, get_args, get_type_hints

from mepol.errors import ConfigError

GIVEN = "given:"
"""Before the name of an object that was handed in, where a setting would have a name that can be stored."""
MAX_LAYERS = 30
MAX_WIDTH = 65536
MAX_WEIGHTS = 50_000_000
"""Weights between the hidden layers of one network, at most: a stranger's config cannot ask for more memory."""


class Rule(Protocol):
    """What a field's value must obey."""

    words: str
    """The rule after "it must be"."""

    def require(self, name: str, value: Any) -> None:
        """ConfigError, with the field and its value, unless `value` obeys."""


def require(condition: bool, name: str, value: object, allowed: str) -> None:
    """ConfigError unless `condition` holds."""
    if not condition:
        raise ConfigError(f"{name} = {shown(value, str)} is not possible: it must be {allowed}")


def require_known(name: str, value: object, known: Collection[str]) -> None:
    """ConfigError unless `value` is one of the `known` names."""
    if not isinstance(value, str) or value not in known:
        raise ConfigError(f"{name} = {shown(value)} is not one of {', '.join(map(repr, known))}")


def require_handed(name: str, text: str, thing: object) -> None:
    """ConfigError where the setting `text` stands for an object that was handed in, and `thing`, that object, is None.

    Such a text is a name for people. It is never looked up: a file must not decide what is imported.
    """
    if text.startswith(GIVEN) and thing is None:
        raise ConfigError(
            f"{name} is {text.removeprefix(GIVEN)!r}, an object that no file holds: hand it in again, {name}=..."
        )


def shown(value: object, text: Callable[[Any], str] = repr) -> str:
    """`value` in an error's sentence: cut where it is long, and no fault of its own where it cannot be printed."""
    try:
        words = text(value)
    except ValueError:  # an integer of more digits than Python prints
        return "a number of thousands of digits"
    words = words.encode("utf-8", "backslashreplace").decode()  # half a character cannot be printed
    return words if len(words) <= 200 else f"{words[:200]}..."


# --- Numbers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Range:
    """Numbers that `allows` lets pass; of a tuple each must, and an unset one does."""

    words: str
    allows: Callable[[Any], bool]

    def require(self, name: str, value: Any) -> None:
        """See Rule."""
        numbers = value if isinstance(value, tuple) else () if value is None else (value,)
        finite = all(map(_is_finite, numbers))
        # "at least 0" alone would let infinity pass: then the sentence says why it does not.
        words = self.words if finite or not all(map(self.allows, numbers)) else f"{self.words} and finite"
        require(finite and all(map(self.allows, numbers)), name, value, words)


def at_least(low: float, meaning: str = "") -> Range:
    """`low` or more; `meaning` says what a special value stands for ("0: all cores")."""
    return Range(f"at least {_text(low)}" + (f" ({meaning})" if meaning else ""), lambda v: v >= low)


def above(low: float, most: float = math.inf) -> Range:
    """More than `low`, and not more than `most`."""
    words = f"above {_text(low)}" + (f" and at most {_text(most)}" if most < math.inf else "")
    return Range(words, lambda v: low < v <= most)


def between(low: float, high: float) -> Range:
    """More than `low` and less than `high`."""
    return Range(f"between {_text(low)} and {_text(high)}", lambda v: low < v < high)


def within(low: float, high: float, unit: str = "") -> Range:
    """`low`, `high`, or anything between."""
    return Range(f"from {_text(low)} to {_text(high)}" + (f" {unit}" if unit else ""), lambda v: low <= v <= high)


def _is_finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


FINITE = Range("a finite number", _is_finite)
"""What holds for every number of every setting, with or without a range: JSON has no NaN and no infinity."""


def _text(number: float) -> str:
    return "2^63 - 1" if number == 2**63 - 1 else re.sub(r"e\+0*", "e", f"{number:g}")


# --- Others ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Widths:
    """Hidden layers that a network can have."""

    words: str = f"at most {MAX_LAYERS} widths from 1 to {MAX_WIDTH}"

    def require(self, name: str, value: tuple[int, ...]) -> None:
        """See Rule."""
        require(len(value) <= MAX_LAYERS, name, f"{len(value)} layers", f"at most {MAX_LAYERS} layers")
        require(all(1 <= w <= MAX_WIDTH for w in value), name, value, f"widths from 1 to {MAX_WIDTH}")
        weights = sum(a * b for a, b in pairwise(value))
        require(weights <= MAX_WEIGHTS, name, value, f"at most {_text(MAX_WEIGHTS)} weights, not {weights}")


def widths() -> Widths:
    """Hidden layers that a network can have."""
    return Widths()


@dataclass(frozen=True, eq=False)  # hashed by what it is: the table may be a list
class Choice:
    """One of the names in a table, as it is when it is asked."""

    known: Collection[str]

    @property
    def words(self) -> str:
        """The names."""
        return f"one of {', '.join(self.known)}"

    def require(self, name: str, value: Any) -> None:
        """See Rule."""
        if not str(value).startswith(GIVEN):
            require_known(name, value, self.known)


def one_of(known: Collection[str]) -> Choice:
    """A name in the table `known`, which may grow, or that of an object that was handed in."""
    return Choice(known)


# --- All fields of a config -----------------------------------------------------------------------------------------


def check(config: Any) -> None:
    """ConfigError unless every field obeys the rules beside it; a dataclass calls it in `__post_init__`."""
    prefix = getattr(config, "prefix", "")
    kind: type = type(config)
    for name, rules in rules_of(kind).items():
        for rule in rules or (FINITE,):
            rule.require(f"{prefix}{name}", getattr(config, name))


@cache
def rules_of(kind: type) -> dict[str, tuple[Rule, ...]]:
    """The rules beside each field of a config dataclass."""
    hints = get_type_hints(kind, include_extras=True)
    return {item.name: tuple(_rules(hints[item.name])) for item in fields(kind)}


def _rules(hint: Any) -> list[Rule]:
    """Those in Annotated, wherever it stands: around an optional type, or inside one."""
    own: list[Rule] = [item for item in getattr(hint, "__metadata__", ()) if hasattr(item, "require")]
    return [*own, *(rule for part in get_args(hint) for rule in _rules(part))]
