"""More partitions for topics."""
