"""Where the testbed keeps things, and which addresses it uses.

Two kinds of place exist. The cache is keyed by version and digest and shared by every checkout of the same person.
The state is keyed by the checkout's path, so that two checkouts never share a process, a port or a file.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

KUBERNETES_VERSION = "1.36.1"
HELM_VERSION = "4.3.1"
ETCD_VERSION = "3.6.16"
COREDNS_VERSION = "1.15.0"
PROMTOOL_VERSION = "0.316.0"
KUBECONFORM_VERSION = "0.8.0"
KUBE_SCORE_VERSION = "1.20.0"
PROMETHEUS_OPERATOR_VERSION = "0.85.0"

CONTROL_PLANE_ADDRESS = "10.88.0.1"
SERVICE_RANGE = "10.96.0.0/16"
KUBERNETES_SERVICE_ADDRESS = "10.96.0.1"
DNS_ADDRESS = "10.96.0.10"
"""A fixed address of the Service range, in the part that Kubernetes does not hand out by itself."""
DNS_DOMAIN = "cluster.local"
POD_RANGE = "10.244.0.0/16"
API_PORT = 6443
NODE_COUNT = 3

STATE_VARIABLE = "KAFKA_MEDIC_TESTBED"
"""Set for what runs inside the testbed: the state directory it belongs to."""

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Node:
    """One of the testbed's machines: a kubelet and a containerd with an address and a zone of their own."""

    index: int

    @property
    def name(self) -> str:
        return f"node-{self.index}"

    @property
    def zone(self) -> str:
        return f"zone-{self.index}"

    @property
    def address(self) -> str:
        return f"10.88.0.{10 + self.index}"

    @property
    def pod_range(self) -> str:
        return f"10.244.{self.index}.0/24"


NODES = tuple(Node(index) for index in range(1, NODE_COUNT + 1))


def _home(variable: str, fallback: str) -> Path:
    configured = os.environ.get(variable, "")
    # The XDG specification says that a relative path is to be ignored.
    return Path(configured) if configured.startswith("/") else Path.home() / fallback


def cache_root() -> Path:
    return _home("XDG_CACHE_HOME", ".cache") / "kafka-medic"


def checkout_key(checkout: Path = REPOSITORY) -> str:
    return hashlib.sha256(str(checkout).encode()).hexdigest()[:10]


@dataclass(frozen=True)
class State:
    """The directory that holds everything one checkout's testbed writes."""

    root: Path

    @property
    def key(self) -> str:
        return self.root.name

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def credentials(self) -> Path:
        return self.root / "credentials"

    @property
    def disks(self) -> Path:
        return self.root / "disks"

    @property
    def audit_log(self) -> Path:
        return self.logs / "audit.jsonl"

    @property
    def resolver(self) -> Path:
        """The resolv.conf of what runs inside the testbed but in no Pod."""
        return self.root / "resolv.conf"

    @property
    def cgroup(self) -> str:
        """The name under which this testbed's control groups hang, below the root of each hierarchy."""
        return f"kafka-medic-{self.key}"

    def kubeconfig(self, user: str = "admin") -> Path:
        return self.root / f"kubeconfig.{user}"

    def node(self, node: Node) -> Path:
        return self.root / "nodes" / node.name


def own_state(checkout: Path = REPOSITORY) -> State:
    return State(_home("XDG_STATE_HOME", ".local/state") / "kafka-medic" / checkout_key(checkout))
