"""Replicas added by reassignment, under a throttle, in waves."""
