"""What the planner reads and writes: partitions and brokers in, the plan and its report out."""
