"""The live page's server: two addresses, for browsers of this machine, until it is told to end."""

from __future__ import annotations

import _thread
import http.client
import json
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from mepol.cli import main
from mepol.errors import ConfigError, RunError
from mepol.report.server import LivePage

Answer = tuple[int, dict[str, str], str]


def ask(port: int, path: str, method: str = "GET", **headers: str) -> Answer:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read().decode()


@pytest.fixture
def served(copied: Callable[..., Path]) -> Iterator[tuple[LivePage, Path]]:
    path = copied()
    live = LivePage([path])
    thread = threading.Thread(target=live.serve)
    thread.start()
    yield live, path
    live.close()
    thread.join(20)
    assert not thread.is_alive()


def test_it_serves_the_page_and_its_data_and_nothing_else(served: tuple[LivePage, Path]) -> None:
    live, _ = served
    code, headers, page = ask(live.port, "/")
    assert (code, headers["Content-Type"], page[:15]) == (200, "text/html; charset=utf-8", "<!DOCTYPE html>")
    assert (headers["Server"], headers["X-Content-Type-Options"]) == ("mepol", "nosniff")
    code, headers, text = ask(live.port, "/data.json")
    assert (code, json.loads(text)["runs"][0]["title"]) == (200, "copy")
    assert ask(live.port, "/data.json", If_None_Match=headers["ETag"])[::2] == (304, "")
    for path in ("/config.json", "/../copy/config.json", "/heatmaps", "/heatmaps/", "/?", "/data.json/", "/%2e"):
        assert ask(live.port, path)[0] == 404
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD"):
        assert ask(live.port, "/", method)[0] == 501


def test_a_stranger_s_name_for_this_machine_is_refused(served: tuple[LivePage, Path]) -> None:
    live, _ = served
    for host in (f"127.0.0.1:{live.port}", f"localhost:{live.port}"):
        assert ask(live.port, "/", Host=host)[0] == 200
    for host in ("evil.example", f"evil.example:{live.port}", "127.0.0.1", f"127.0.0.1.evil.example:{live.port}", ""):
        code, _, text = ask(live.port, "/data.json", Host=host)
        assert (code, "copy" in text) == (421, False)


def test_data_are_read_again_when_a_file_has_changed_and_faults_are_told(served: tuple[LivePage, Path]) -> None:
    live, path = served
    tag = ask(live.port, "/data.json")[1]["ETag"]
    lines = (path / "metrics.csv").read_text().splitlines(keepends=True)
    (path / "metrics.csv").write_text("".join(lines[:-1]))
    code, headers, text = ask(live.port, "/data.json", If_None_Match=tag)
    assert (code, json.loads(text)["runs"][0]["columns"]["epoch"]) == (200, [0, 1, 2, 3])
    assert headers["ETag"] != tag
    shutil.rmtree(path)
    code, _, text = ask(live.port, "/data.json")
    assert (code, text) == (503, f"{path} is not a run directory: it has no config.json")


def test_only_this_machine_is_listened_to_and_the_port_is_given_back(copied: Callable[..., Path]) -> None:
    path = copied()
    first = LivePage([path])
    assert first.url == f"http://127.0.0.1:{first.port}/"
    with pytest.raises(ConfigError, match=f"port = {first.port} cannot be had: .*; choose another --port, or 0"):
        LivePage([path], first.port)
    first.close()  # before anything was asked for
    LivePage([path], first.port).close()
    with pytest.raises(RunError, match="not a run directory"):
        LivePage([path.parent])


def test_control_c_ends_it_well(copied: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = copied()
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    answers: list[int] = []

    def look_and_interrupt() -> None:
        while not answers:
            with suppress(ConnectionError):
                answers.append(ask(port, "/")[0])
        _thread.interrupt_main()

    threading.Thread(target=look_and_interrupt).start()
    assert main(["report", "--live", str(path), "--port", str(port)]) == 0
    assert answers == [200]
    words = capsys.readouterr().out
    assert f"http://127.0.0.1:{port}/ shows {path}; Ctrl-C ends it\n" in words
    assert words.endswith("the live page has ended; the runs go on\n")
