"""The command `kafka-medic`: the same engine, without Kubernetes, from saved or fresh snapshots."""
