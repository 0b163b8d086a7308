"""Text that a stranger wrote, made safe for the place where it is shown: a terminal, a figure, a table, a file name.

Every text that comes out of a file goes through one of these before it reaches anything that would act on it. For a
page there is `html.escape` of the standard library.
"""

from __future__ import annotations

import re
import unicodedata

MAX_SHOWN = 2000  # characters of one piece of text on a terminal
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def plain(text: str, most: int = MAX_SHOWN) -> str:
    """`text` for a terminal: escapes, other control characters and lone surrogates are shown, not obeyed.

    Line ends and tabs stay. What is longer than `most` characters is cut, and says so.
    """
    if len(text) > most:
        text = f"{text[:most]}... ({len(text)} characters)"
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in "\n\t" or _is_harmless(c) else f"\\x{ord(c):02x}" for c in text)


def _is_harmless(c: str) -> bool:
    # Cc: control; Cs: lone surrogates; Cf: invisible format characters, among them those that reverse the line.
    return unicodedata.category(c) not in ("Cc", "Cs", "Cf")


def label(text: str, most: int = 200) -> str:
    """`text` for a figure: Matplotlib would read what stands between two dollars as a formula."""
    return plain(text, most).replace("$", r"\$")


def cell(text: str) -> str:
    """`text` for a CSV file: a spreadsheet would compute what begins like a formula."""
    shown = plain(text).replace("\n", " ").replace("\t", " ")
    number = re.fullmatch(r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?", shown)
    return f"'{shown}" if shown.startswith(_FORMULA) and not number else shown


def file_name(text: str, most: int = 80) -> str:
    """`text` as the name of one file: letters, digits, `.`, `_` and `-`, never a path, never hidden, never empty."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:most].strip(".-")
    return name or "unnamed"
