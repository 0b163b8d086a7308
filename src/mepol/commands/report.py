"""`mepol report RUN...`: one self-contained page of runs of either phase, as a file or served while they go on."""

from __future__ import annotations

import webbrowser
from dataclasses import dataclass
from pathlib import Path

import tyro

from mepol.commands.terminal import SomePath, at_least, parse
from mepol.console.screen import stdout
from mepol.report.page import write_report
from mepol.report.server import LivePage
from mepol.run import Run
from mepol.settings import require


@dataclass(frozen=True)
class ReportArguments:
    """Show runs of either phase on one page: curves, heatmaps over training, health, goals, films, settings.

    The page is one file that needs no network and nothing beside it. Nothing is sampled again.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Run directories, shown side by side."""
    out: SomePath = None
    """Directory for report.html; by default the run's figures/, and for several runs it must be given."""
    live: bool = False
    """Serve the page on 127.0.0.1 until Ctrl-C, and keep it up to date while the runs go on; no file is written."""
    port: int = 0
    """Of the live page; 0 for any that is free."""
    open: bool = False
    """Show the page in a browser."""


def command(arguments: list[str]) -> None:
    """Write the page, or serve it."""
    parsed = parse(ReportArguments, arguments, "mepol report")
    at_least("runs", len(parsed.runs), 1)
    require(0 <= parsed.port <= 65535, "port", parsed.port, "from 0 to 65535")
    if parsed.live:
        require(parsed.out is None, "out", parsed.out, "left out with --live, which writes no file")
        _serve(parsed.runs, parsed.port, parsed.open)
        return
    require(parsed.port == 0, "port", parsed.port, "given with --live alone")
    path = write_report([Run.open(path).directory for path in parsed.runs], parsed.out)
    stdout.print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
    if parsed.open:
        _show(path.resolve().as_uri())


def _serve(paths: tuple[Path, ...], port: int, show: bool) -> None:
    """Answer until the user has seen enough: Ctrl-C is how this ends well."""
    live = LivePage(paths, port)
    stdout.print(f"{live.url} shows {', '.join(map(str, paths))}; Ctrl-C ends it")
    if show:
        _show(live.url)
    try:
        live.serve()
    except KeyboardInterrupt:
        stdout.print("the live page has ended; the runs go on")
    finally:
        live.close()


def _show(url: str) -> None:
    if not webbrowser.open(url):
        stdout.print(f"no browser could be started: open {url} in one")
