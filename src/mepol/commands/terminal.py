"""What every command shares: where it prints, and how it reads its arguments."""

from __future__ import annotations

from typing import Annotated, Any

import tyro
from rich.console import Console

from mepol.errors import ConfigError

# Lines and paths are printed as they are, and a sentence stays one line.
stdout = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
stderr = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def at_least(name: str, value: int, least: int) -> None:
    """ConfigError unless `value` is `least` or more."""
    if value < least:
        raise ConfigError(f"{name} = {value} is not possible: it must be at least {least}")


def parse(kind: Any, arguments: list[str], prog: str, default: Any = None) -> Any:
    """Arguments into a dataclass; nested settings become flat flags."""
    flat = Annotated[kind, tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes]
    extra = {} if default is None else {"default": default}
    return tyro.cli(flat, prog=prog, args=arguments, **extra)
