"""An actor and an environment give a batch."""
