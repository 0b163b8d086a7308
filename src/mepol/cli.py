"""The `mepol` command: which command is meant, and how it ends."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from mepol import __version__
from mepol.errors import ConfigError, EnvironmentFault, MepolError

COMMANDS = {
    name: f"mepol.commands.{name}"
    for name in (
        *("explore", "resume", "evaluate", "compare", "sweep", "horizon", "animate", "video", "finetune", "goals"),
        *("heatmaps", "report", "export", "collect", "zoo", "reproduce", "presets", "calibrate"),
        *("doctor", "completion", "help"),
    )
}
"""Command -> the module whose `command(arguments)` it is; imported when it is asked for."""
VERBOSE = "--verbose"
"""On any command: warnings and faults in full."""
EXTRAS = {
    **dict.fromkeys(("mujoco", "gymnasium_robotics", "OpenGL"), "mujoco"),
    **dict.fromkeys(("stable_baselines3", "sb3_contrib"), "finetune"),
    "sklearn": "rivals",
    **dict.fromkeys(("imageio_ffmpeg", "pygame"), "video"),
    **dict.fromkeys(("tensorboard", "wandb"), "log"),
    **dict.fromkeys(("onnx", "onnxruntime"), "export"),
    **dict.fromkeys(("minari", "h5py", "pyarrow"), "data"),
    "ray": "ray",
}
"""Optional module -> the extra that brings it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0 done, 1 failed, 2 wrong usage or values, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):  # what a terminal cannot show is spelt out instead of ending the command
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if arguments and arguments[0] in ("-V", "--version"):
        print(f"mepol {__version__}")
        return 0
    verbose = VERBOSE in arguments
    words = [word for word in arguments if word != VERBOSE]
    name = "help" if not words or words[0] in ("-h", "--help") else words[0]
    try:
        code = _run(name, words[1:], verbose=verbose)
    except KeyboardInterrupt:  # while the little was imported that every command needs
        return 130
    return code if words else 2


def _run(name: str, arguments: list[str], *, verbose: bool) -> int:
    """One command, with its faults as sentences and its end as a number; `verbose`: their tracebacks below them."""
    from mepol.commands.terminal import Terminated, parting_words
    from mepol.console.notices import one_line_each
    from mepol.console.screen import stderr

    def say(sentence: object, fault: BaseException | None = None) -> None:
        stderr.print(f"mepol: {sentence}")
        if verbose and fault is not None:
            stderr.print("".join(traceback.format_exception(fault)), end="")

    try:
        with _signals(), one_line_each(verbose=verbose):
            _find(name)(arguments)
    except MepolError as fault:
        raised = isinstance(fault, EnvironmentFault) and isinstance(fault.__cause__, Exception)
        say(f"{fault}; {VERBOSE} shows the traceback" if raised and not verbose else fault, fault)
        return 2 if isinstance(fault, ConfigError) else 1
    except ImportError as fault:
        say(_missing(fault), fault)
        return 1
    except KeyboardInterrupt as stop:
        say(f"interrupted; {parting_words(stop)}")
        return 130
    except Terminated as stop:
        say(f"terminated; {parting_words(stop)}")
        return 128 + stop.number
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except (OSError, MemoryError) as fault:
        say(f"the system refused: {str(fault) or 'out of memory'}", fault)
        return 1
    return 0


def _find(name: str) -> Any:
    """The function of a command; an unknown one is a ConfigError that suggests the nearest."""
    if name not in COMMANDS:
        near = get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(f"no command {name!r}; {hint}the commands are {', '.join(COMMANDS)}")
    return import_module(COMMANDS[name]).command


def _missing(fault: ImportError) -> str:
    """What to install for a module that is not there."""
    name = (fault.name or "").partition(".")[0]
    if name in EXTRAS:
        return f"this needs {name}, which is not installed: pip install 'mepol[{EXTRAS[name]}]'"
    return f"cannot import {name or 'a module'}: {fault}"


@contextmanager
def _signals() -> Iterator[None]:
    """Termination unwinds the stack, as Ctrl-C does; as before afterwards.

    A library in C may meet what a signal raises in the middle of its own work, and raise a fault of its own instead:
    once a signal has been heard, it is what ended the command.
    """
    from mepol.commands.terminal import Terminated

    stops: list[BaseException] = []

    def stop(number: int, _: object) -> None:
        stops.append(KeyboardInterrupt() if number == signal.SIGINT else Terminated(number))
        raise stops[-1]

    kinds = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    heard = [s for s in kinds if signal.getsignal(s) is not signal.SIG_IGN]  # nohup stays
    before = {number: signal.signal(number, stop) for number in heard}
    try:
        yield
    except Exception as fault:
        if stops:
            raise stops[0] from fault
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
