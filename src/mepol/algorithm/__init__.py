"""Phase 1's mathematics: no environment, file, clock or seed."""
