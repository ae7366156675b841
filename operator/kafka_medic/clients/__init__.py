"""Adapters: each client library is imported by exactly one module here, and answers through the port in `ports.py`.

librdkafka (confluent-kafka) does what it can; kafka-python fills its gaps (reassignments, log directories, the quorum,
one broker asked alone); kazoo speaks to ZooKeeper; kubernetes to the API server.
"""
