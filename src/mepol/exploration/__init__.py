"""Phase 1 as a job: settings, presets, and what explores."""

from mepol.exploration import table as _table  # noqa: F401  fills the table of explorers
