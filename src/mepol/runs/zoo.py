"""`zoo:NAME`, wherever a run or a policy is taken: runs that are shipped with the package; nobody writes to them."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from mepol.errors import RunError

PREFIX = "zoo:"
SHIPPED = Path(__file__).resolve().parents[1] / "zoo" / "data"
"""A folder of each shipped run: config.json, domain.json, metrics.csv, policy.safetensors and its card."""


def shipped_names() -> list[str]:
    """Names of the shipped runs, in order."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/config.json"))


def run_place(path: str | Path) -> Path:
    """The directory that `zoo:NAME` stands for; any other path is itself. RunError for a name that is not there."""
    text = str(path)
    if not text.startswith(PREFIX):
        return Path(path)
    name, known = text.removeprefix(PREFIX), shipped_names()
    if name not in known:  # a listing decides, so that no text becomes a path
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {PREFIX}{near[0]}? " if near else ""
        raise RunError(f"the zoo has no {name[:80]!r}; {hint}it has {', '.join(known)}")
    return SHIPPED / name


def policy_place(path: str | Path) -> Path:
    """The policy file that `zoo:NAME` stands for; any other path is itself."""
    place = run_place(path)
    return place / "policy.safetensors" if is_shipped(place) else place


def is_shipped(path: Path) -> bool:
    """Whether `path` is a run of the package."""
    return path.parent == SHIPPED


def require_own(path: Path) -> None:
    """RunError where `path` is a run of the package."""
    if is_shipped(path):
        raise RunError(
            f"{PREFIX}{path.name} is shipped with mepol, and nothing is written there; "
            f"mepol zoo get {path.name} DIR makes a copy of your own"
        )
