"""Every failure a user can meet has a name here, and a message with name, number and remedy."""

from __future__ import annotations


class MepolError(Exception):
    """Base of every error that mepol raises on purpose; the command line prints it as one sentence.

    >>> import mepol
    >>> try:
    ...     mepol.preset("gridwold")
    ... except mepol.MepolError as fault:
    ...     print(str(fault).partition(";")[0])
    no preset or environment called 'gridwold'
    """


class ConfigError(MepolError):
    """A setting is unknown, impossible or out of range.

    Not a ValueError: the command line's parser would wrap it in its own words.
    """


class ParticleError(MepolError, ValueError):
    """Particles that no entropy can be estimated from (wrong shape, NaN, too few, flat)."""


class CoincidentParticlesError(ParticleError):
    """So many particles coincide that the k-nearest-neighbour volumes are zero."""


class CollapseError(MepolError, RuntimeError):
    """The policy fell off a cliff: its entropy dropped too far in one epoch."""


class EnvironmentFault(MepolError, RuntimeError):
    """The environment broke its contract: unusable spaces, a wrong shape, a NaN."""


class PolicyFileError(MepolError, ValueError):
    """A policy file is truncated, foreign or does not describe a policy."""


class RunError(MepolError, RuntimeError):
    """A run directory is missing, incomplete, or already holds a run."""


class CheckpointError(MepolError, ValueError):
    """A checkpoint is truncated, corrupt, or belongs to another run."""


class MepolWarning(UserWarning):
    """Something a user should know about a run that goes on."""


class PackageNews(UserWarning):
    """What a package of environments says when it is imported, whatever is made of it; shown with --verbose."""
