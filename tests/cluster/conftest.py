"""A real Ray cluster on loopback: two nodes with one CPU each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

os.environ.update(
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",  # 127.0.0.1 is an address like any other
    RAY_USAGE_STATS_ENABLED="0",
    RAY_DISABLE_MEMORY_MONITOR="1",
)
SMALL = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "node_ip_address": "127.0.0.1"}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """The cluster, with nobody connected yet; a node that dies is missed within a second or two."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    beats = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
    cluster = Cluster(True, head_node_args={**SMALL, "include_dashboard": False, "_system_config": beats})
    cluster.add_node(**SMALL)
    yield cluster
    cluster.shutdown()


@pytest.fixture
def nodes(cluster: Any) -> Any:
    """The cluster with both of its nodes, whatever a test before has done to one."""
    if len(cluster.list_all_nodes()) < 2:
        cluster.add_node(**SMALL)
    return cluster


@pytest.fixture
def ray(nodes: Any) -> Iterator[Any]:
    """Ray, connected to the cluster."""
    cluster = nodes
    from mepol.cluster.connection import connected

    with connected(cluster.address) as ray:
        yield ray
