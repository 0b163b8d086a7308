"""The page: a template, a style and a script of our own in one file, with the data inlined. It asks for nothing else.

Its Content-Security-Policy lets run this script and no other, by digest, and lets nothing be loaded but pictures that
the page itself holds. The data lie in a block that no browser executes, and the script shows them as text alone.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from mepol.errors import ConfigError
from mepol.report.gather import Run, gather
from mepol.runs.files import output_folder

NAME = "report.html"
SCRIPTS = ("elements.js", "charts.js", "maps.js", "page.js")
"""Parts of the script, in order."""
LIVE_MS = 2000  # between two looks of a live page
_ESCAPED = {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def data_text(runs: Sequence[Run]) -> str:
    """What the page shows of `runs`, as JSON that may stand in any place of a page."""
    return _json(gather(runs))


def report_page(runs: Sequence[Run], *, live: bool = False) -> str:
    """The whole page of `runs`. live: it comes from our server, and looks for news of the runs there."""
    style, script = _part("page.css"), "\n".join(map(_part, SCRIPTS))
    data = {**gather(runs), "live": LIVE_MS if live else 0}
    names = ", ".join(run["title"] for run in data["runs"])
    parts = {
        "policy": html.escape(policy(script, style, live=live)),
        "title": html.escape(f"{names} · mepol report"),
        "style": style,
        "script": script,
        "data": _json(data),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _part("page.html"))  # in one pass: data stay data


def write_report(runs: Sequence[Run], out: str | Path | None = None) -> Path:
    """report.html of `runs` in the folder `out`; without it a single run's goes into its own figures/."""
    if out is None and len(runs) > 1:
        raise ConfigError("a page of several runs belongs to none of them: say with --out DIR where it goes")
    page = report_page(runs)
    if out is not None:
        return output_folder(Path(out)).write_text(NAME, page)
    door = runs[0].door
    door.folder("figures")
    return door.write_text(f"figures/{NAME}", page)


def policy(script: str, style: str, *, live: bool) -> str:
    """The Content-Security-Policy under which these two texts work, and nothing else does."""
    rules = {
        "default-src": "'none'",
        "script-src": f"'{_digest(script)}'",
        "style-src": f"'{_digest(style)}'",
        "img-src": "data:",
        "media-src": "data:",
        **({"connect-src": "'self'"} if live else {}),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _json(data: dict[str, Any]) -> str:
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda found: _ESCAPED[found[0]], text)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _part(name: str) -> str:
    return (files("mepol.report") / "page" / name).read_text(encoding="utf-8")
