"""The planner for tables too large for one process: the same kernel, carried to the partitions by Spark."""
