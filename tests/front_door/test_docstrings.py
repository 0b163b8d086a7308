"""The front door: few names, each documented with an example, and every example holds."""

from __future__ import annotations

import doctest
import inspect

import pytest

import mepol


def public_members(kind):
    return {name: member for name, member in vars(kind).items() if not name.startswith("_")}


def examples_of(name):
    thing = getattr(mepol, name)
    finder = doctest.DocTestFinder(recurse=inspect.isclass(thing), exclude_empty=True)
    return [test for test in finder.find(thing, name, globs={}) if test.examples]


@pytest.mark.parametrize("name", mepol.__all__)
def test_the_examples_of_each_name_hold(name, here, capsys):
    tests = examples_of(name)
    assert any(test.name == name for test in tests), f"mepol.{name} has no example"
    for test in tests:
        result = doctest.DocTestRunner().run(test)
        assert result.failed == 0, capsys.readouterr().out


def test_there_are_few_names_and_each_is_documented():
    assert len(mepol.__all__) <= 25
    assert list(mepol.__all__) == sorted(mepol.__all__)
    undocumented = [name for name in mepol.__all__ if not inspect.getdoc(getattr(mepol, name))]
    assert undocumented == []
    public = {name for name in vars(mepol) if not name.startswith("_")}
    rooms = {name for name in public if inspect.ismodule(getattr(mepol, name))} - {"algorithm"}
    assert public - rooms - set(mepol.__all__) == {"annotations"}


def test_every_member_of_a_run_is_documented_and_shown():
    members = public_members(mepol.Run)
    assert [name for name, member in members.items() if not inspect.getdoc(member)] == []
    shown = "".join(example.source for test in examples_of("Run") for example in test.examples)
    assert [name for name in members if f".{name}" not in shown] == []
