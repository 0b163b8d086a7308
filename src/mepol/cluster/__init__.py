"""Beyond one machine: sweeps, batches and neighbour searches on a Ray cluster (docs/guide/scale.md).

Ray is imported when it is asked for, not before.

>>> import mepol
>>> sampler = mepol.cluster.ray_sampler(workers=4)  # mepol.explore("ant", sampler=sampler) starts them
"""

from __future__ import annotations

from mepol.cluster.sampler import RaySampler

__all__ = ["ray_sampler"]


def ray_sampler(workers: int, address: str | None = None) -> RaySampler:
    """Who draws the batches of one big run: `workers` Ray actors, each with a shard of the environments.

    address: of a cluster that this machine is a node of (`"10.0.0.5:6379"`, `"auto"`); by default Ray is started on
    this machine alone. The result equals that without a sampler, bit for bit (docs/guide/scale.md says of which
    environments).

        mepol.explore("ant", sampler=mepol.cluster.ray_sampler(workers=16, address="auto"), trajectories=1000)
    """
    return RaySampler(workers, address)
