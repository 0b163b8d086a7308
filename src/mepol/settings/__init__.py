"""Settings as dataclasses: each range beside its field, changed by name, described, written as JSON and read back.

    @dataclass(frozen=True)
    class AscentConfig:
        k: Annotated[int, at_least(1)] = 4
        \"\"\"Nearest neighbours of the entropy estimate.\"\"\"

        def __post_init__(self) -> None:
            check(self)

What such a class may say besides:
    prefix: ClassVar[str]                    stands before its names wherever they are told apart (`trpo.`)
    upgrade(data) -> data                    static: stored settings of an older layout, in today's
    slots(data) -> {field: type or None}     static: fields whose type depends on the other settings
"""

from __future__ import annotations

from mepol.settings.describe import Described, describe
from mepol.settings.names import flat_settings, hashable, with_settings
from mepol.settings.ranges import (
    GIVEN,
    above,
    at_least,
    between,
    check,
    one_of,
    require,
    require_handed,
    require_known,
    widths,
    within,
)
from mepol.settings.sources import Row, Rows, built, over, rows
from mepol.settings.stored import from_json, require_plain, to_json

__all__ = [
    "GIVEN",
    "Described",
    "Row",
    "Rows",
    "above",
    "at_least",
    "between",
    "built",
    "check",
    "describe",
    "flat_settings",
    "from_json",
    "hashable",
    "one_of",
    "over",
    "require",
    "require_handed",
    "require_known",
    "require_plain",
    "rows",
    "to_json",
    "widths",
    "with_settings",
    "within",
]
