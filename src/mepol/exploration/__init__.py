"""Phase 1 as a job: settings, presets, explorers."""
