"""The way to a Ray cluster: one that is there, or one of this machine alone that nobody else reaches."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mepol.errors import ConfigError
from mepol.runs.machine import as_before

LOOPBACK = ("127.0.0.1", "localhost")
START = "start one with `ray start --head` (docs/guide/scale.md), or leave --address out for this machine alone"
PATIENCE = 5.0  # seconds that a cluster's door has to open; Ray itself tries for minutes
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0"}  # nothing is told to anybody
_LOOPBACK_ONLY = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # else Ray takes an address that others reach


@contextmanager
def connected(address: str | None = None) -> Iterator[Any]:
    """The module `ray`, connected to the cluster at `address`; a connection that is there already is used, and kept.

    address: HOST:PORT or `auto` of a cluster that this machine is a node of. None starts Ray on this machine alone,
    bound to 127.0.0.1, and ends it at the end.
    """
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        yield sys.modules["ray"]
        return
    host = _answering(address) if address not in (None, "auto", "local") else None
    alone = address in (None, "local")
    with as_before():
        os.environ.update({k: v for k, v in _SETTINGS.items() if k not in os.environ})
        if alone or host in LOOPBACK:
            _stay_within()
        import ray

        here: dict[str, Any] = {"include_dashboard": False, "_node_ip_address": LOOPBACK[0]} if alone else {}
        try:
            ray.init(address="local" if alone else address, log_to_driver=False, logging_level=logging.ERROR, **here)
        except (ConnectionError, RuntimeError, ValueError) as fault:
            raise ConfigError(f"no Ray cluster answers at {address or 'this machine'}: {fault}; {START}") from fault
    try:
        yield ray
    finally:
        ray.shutdown()


def _stay_within() -> None:
    """Ray takes 127.0.0.1 as this machine's address, where it would look for one that others reach."""
    os.environ.update(_LOOPBACK_ONLY)
    if "ray" in sys.modules:  # it has read the variable already
        sys.modules["ray"]._private.ray_constants.ENABLE_RAY_CLUSTER = False


def _answering(address: str | None) -> str:
    """The host of `address`, once something listens there."""
    host, colon, port = (address or "").rpartition(":")
    if "//" in host:
        raise ConfigError(
            f"address = {address!r} is not possible: run the command on a node, with its HOST:PORT or auto"
        )
    if not colon or not port.isdecimal():
        raise ConfigError(f"address = {address!r} is not possible: it must be HOST:PORT or auto")
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except (OSError, OverflowError) as fault:
        raise ConfigError(f"no Ray cluster answers at {address}: {fault}; {START}") from fault
    return host
