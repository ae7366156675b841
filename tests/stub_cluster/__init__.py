"""A Kafka cluster of any size that speaks Kafka's own protocol on the loopback, for tests and benchmarks.

The stub brokers answer every request of the operator's observation. They begin as described, and follow orders as
KRaft's controller does: reassignments, elections, settings, new topics. They store no record and refuse Produce.
`tests/contract/given.py` holds the stub brokers and a real Kafka to the same assertions.
"""

from tests.stub_cluster.description import Described, Size, made_up
from tests.stub_cluster.process import Place, StubProcess
from tests.stub_cluster.server import Conduct, Running, StubCluster, running

__all__ = ["Conduct", "Described", "Place", "Running", "Size", "StubCluster", "StubProcess", "made_up", "running"]
