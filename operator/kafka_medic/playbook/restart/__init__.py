"""Restarts of brokers, one Pod after the other, and what stands before one: records saved, leaderships moved away."""
