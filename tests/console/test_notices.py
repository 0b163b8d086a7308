"""Warnings of others between our lines."""

from __future__ import annotations

import logging
import warnings

import gymnasium
import pytest

from mepol.console.notices import one_line_each, origin_of, short
from mepol.errors import MepolWarning, PackageNews


def said(capsys: pytest.CaptureFixture[str], *, verbose: bool = False) -> str:
    """Three warnings and a record of logging, as a library would give them."""
    record = {"name": "a_library.of.others", "msg": "updated in %s", "args": ("v1.2.1",), "levelno": logging.WARNING}
    with one_line_each(verbose=verbose):
        warnings.simplefilter("always")
        warnings.warn("environment 3 diverged", MepolWarning, stacklevel=1)
        for _ in range(2):
            gymnasium.logger.warn("the %s is odd\n\n  look   at it", "space")
        warnings.warn("long " * 100, RuntimeWarning, stacklevel=1)
        assert logging.lastResort is not None  # what logging calls where nobody listens, as pytest does
        logging.lastResort.handle(logging.makeLogRecord(record))
    return capsys.readouterr().err


def test_each_is_one_line_said_once_without_colours(capsys) -> None:
    lines = said(capsys).splitlines()
    assert lines[0] == "mepol: warning: environment 3 diverged"
    assert lines[1].endswith(": the space is odd look at it")
    assert lines[2].endswith("long ... (--verbose shows all)")
    assert lines[3] == "mepol: warning: a_library: updated in v1.2.1"
    assert len(lines) == 4
    assert max(map(len, lines)) < 250


def test_verbose_shows_them_whole_with_their_place(capsys) -> None:
    text = said(capsys, verbose=True)
    assert "\x1b" not in text
    assert "long " * 99 in text
    assert f"(RuntimeWarning, {__file__}, line " in text
    assert "updated in v1.2.1 (a_library.of.others)" in text


def test_everything_is_as_before_afterwards(capsys) -> None:
    before = warnings.showwarning, list(warnings.filters), logging.lastResort
    said(capsys)
    assert (warnings.showwarning, list(warnings.filters), logging.lastResort) == before


def test_whose_warning_it_is() -> None:
    assert origin_of("/x/lib/python3.11/site-packages/glfw/__init__.py") == "glfw"
    assert origin_of("/usr/lib/python3/dist-packages/six.py") == "six"
    assert origin_of("/home/me/my_env.py") == "my_env.py"
    assert short("\x1b[33mWARN: careful\x1b[0m", "gymnasium") == "gymnasium: careful"


def test_what_a_package_says_when_it_is_imported_is_for_who_asks(capsys) -> None:
    for verbose in (False, True):
        with one_line_each(verbose=verbose):
            warnings.simplefilter("always")
            warnings.warn("AdroitHand was updated", PackageNews, stacklevel=1)
        assert ("AdroitHand was updated" in capsys.readouterr().err) == verbose
