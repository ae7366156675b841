"""The shell around the pure rooms.

kopf's watches wake a worker per KafkaCluster, and each worker reconciles it: read, decide, write down, act. Only here
and in `cli` do the rooms meet.
"""
