"""What is there? Probes with deadlines that become one honest Snapshot. Reads only."""
