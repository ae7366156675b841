"""The shell around the pure rooms.

kopf's watches wake a worker per KafkaCluster, and each worker's turn reads, decides, writes down, acts. Only here and
in `cli` do the rooms meet.
"""
