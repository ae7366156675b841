"""A Kafka cluster of any size that speaks Kafka's own protocol on the loopback, for as long as a test or a benchmark.

Its brokers answer what the operator's observation asks, from a description that does not change; they store nothing and
take no writes. What the operator reads of them has to be what they were given: `tests/contract` holds the stub brokers
and a real Kafka to the same assertions.
"""

from tests.stub_cluster.description import Described, Size, made_up
from tests.stub_cluster.process import Place, StubProcess
from tests.stub_cluster.server import Conduct, Running, StubCluster, running

__all__ = ["Conduct", "Described", "Place", "Running", "Size", "StubCluster", "StubProcess", "made_up", "running"]
