"""The rules of ascent by name. A new one is a file with a Rule, and a line here."""

from __future__ import annotations

from mepol.algorithm.advantage import ADVANTAGE
from mepol.algorithm.ascent import Rule
from mepol.algorithm.loop import IMPORTANCE

RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        IMPORTANCE,
        ADVANTAGE,
    )
}
