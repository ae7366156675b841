"""May this action happen now? Pure functions from a Snapshot to a Verdict that carries every reason."""
