"""The live page: served on 127.0.0.1 to browsers of this machine, two addresses and nothing else."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from mepol.errors import ConfigError, MepolError
from mepol.report.page import data_text, report_page
from mepol.runs.directory import RunDirectory

Stamp = tuple[tuple[str, int, int], ...]
HOST = "127.0.0.1"
PATIENCE = 10  # seconds that a silent client may keep its connection
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # what a page cannot say of itself
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class LivePage:
    """A server of the page of the runs in `paths`, which reads them again whenever their files have changed.

    port: 0 for any that is free; `url` says where the page is. `serve` returns once `close` is called, from any thread.
    """

    def __init__(self, paths: Sequence[Path], port: int = 0) -> None:
        self._paths, self._data = tuple(paths), ""
        self._seen: tuple[Stamp, ...] = ()
        self._lock, self._serving = threading.Lock(), False
        self.page()  # a fault of the runs is told at once
        try:
            self._server = _Server((HOST, port), _Handler)
        except OSError as fault:
            reason = fault.strerror or fault
            raise ConfigError(f"port = {port} cannot be had: {reason}; choose another --port, or 0") from fault
        self._server.live = self

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{HOST}:{self.port}/"

    def serve(self) -> None:
        """Answer until `close` is called."""
        self._serving = True
        with self._server:
            self._server.serve_forever(poll_interval=0.2)

    def close(self) -> None:
        """End `serve`, and give the port back."""
        if self._serving:
            self._server.shutdown()
        self._server.server_close()

    def page(self) -> str:
        """The page as of now."""
        return report_page(self._open(), live=True)

    def data(self) -> str:
        """What the page shows as of now; the same text as long as no file of the runs has changed."""
        with self._lock:
            seen = tuple(_stamp(path) for path in self._paths)
            if seen != self._seen:
                self._data, self._seen = data_text(self._open()), seen
            return self._data

    def _open(self) -> list[RunDirectory[Any, Any]]:
        return [RunDirectory.open(path) for path in self._paths]


def _stamp(path: Path) -> Stamp:
    """Name, size and time of what the page is made of, and of the folders whose files come and go."""
    names = ("config.json", "domain.json", "metrics.csv", "changes.csv", "best.safetensors", "figures/goals.csv")
    found = []
    for name in (*names, "heatmaps", "figures", "checkpoints"):
        try:
            stat = (path / name).stat()
        except OSError:
            continue
        found.append((name, stat.st_size, stat.st_mtime_ns))
    return tuple(found)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    live: LivePage

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle is no fault."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = PATIENCE
    error_message_format = "%(code)d %(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def do_GET(self) -> None:
        """The page, its data, or a refusal."""
        live = self.server.live
        if self.headers.get_all("Host") not in ([f"{HOST}:{live.port}"], [f"localhost:{live.port}"]):
            # A stranger's page whose name has been turned to this address would otherwise read the runs.
            self.send_error(421, "ask for this page by its own address")
            return
        routes = {"/": ("text/html", live.page), "/data.json": ("application/json", live.data)}
        if self.path not in routes:
            self.send_error(404, "there are / and /data.json")
            return
        kind, make = routes[self.path]
        try:
            body = make().encode("utf-8", errors="replace")
        except (MepolError, OSError) as fault:
            self._send(503, "text/plain", str(fault).encode("utf-8", errors="replace"))
            return
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        same = self.headers.get("If-None-Match") == tag
        self._send(304 if same else 200, kind, b"" if same else body, tag)

    def _send(self, code: int, kind: str, body: bytes, tag: str = "") -> None:
        self.send_response(code)
        for name, value in {**HEADERS, **({"ETag": tag} if tag else {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        """No versions are told."""
        return "mepol"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed for each question."""
