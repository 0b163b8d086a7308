"""What every setting is called, may be and means: for `--help` and for the reference in docs/."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from mepol.settings.ranges import rules_of


@dataclass(frozen=True)
class Described:
    """One setting."""

    name: str
    """Its flat name; the flag is the same with hyphens."""
    type: str
    """As a user would type it: `int`, `float float`, `adam|sgd`."""
    default: Any
    """`dataclasses.MISSING` where it must be given."""
    allowed: str
    """Its range in words, or nothing."""
    text: str
    """The docstring under its field, on one line."""
    group: str
    """The room that it is in, or `run`."""

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return f"--{self.name.replace('_', '-')}"


def describe(config: Any, group: str = "run") -> list[Described]:
    """Every setting of a config dataclass, or of an instance, whose values are then the defaults."""
    kind = config if isinstance(config, type) else type(config)
    hints, prefix = get_type_hints(kind), getattr(kind, "prefix", "")
    rows: list[Described] = []
    for item in dataclasses.fields(kind):
        default = _default(item) if isinstance(config, type) else getattr(config, item.name)
        if dataclasses.is_dataclass(default):
            rows += describe(default, item.name)
        elif hints[item.name] is not Any:  # a slot that nothing is in
            rules = ", ".join(rule.words for rule in rules_of(kind)[item.name])
            text = docstrings(kind).get(item.name, "")
            rows.append(Described(f"{prefix}{item.name}", _type(hints[item.name]), default, rules, text, group))
    return rows


def _default(item: dataclasses.Field[Any]) -> Any:
    return item.default_factory() if item.default_factory is not dataclasses.MISSING else item.default


def _type(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "|".join(map(str, arguments))
    if NoneType in arguments:
        return _type(arguments[0])
    if origin is tuple:
        return f"{_type(arguments[0])} ..." if Ellipsis in arguments else " ".join(map(_type, arguments))
    return "text" if hint is str else str(getattr(hint, "__name__", hint))


@cache
def docstrings(kind: type) -> dict[str, str]:
    """The text under each field of a dataclass, and of those that it inherits, on one line."""
    inherited = {name: text for base in kind.__bases__ if base is not object for name, text in docstrings(base).items()}
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    except (OSError, TypeError, SyntaxError):  # a class made at run time, or without its source
        return inherited
    return inherited | dict(_texts(tree))


def _texts(tree: Any) -> Iterator[tuple[str, str]]:
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
            yield field.target.id, " ".join(str(below.value.value).split())
