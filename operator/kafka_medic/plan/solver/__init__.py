"""The planner: where replicas go, so that racks are kept apart, brokers are even and nothing moves needlessly."""
