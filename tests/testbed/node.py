"""One node of the testbed: runs in mount and host name namespaces of its own, beside the others.

Each node sees the usual places of a real one (/run, /var/lib, /var/log) as private folders, so that three of them fit
on one machine without treading on each other or on it.
"""

from __future__ import annotations

import argparse
import json
import socket
import time
from pathlib import Path

from tests.testbed import credentials
from tests.testbed.build import PAUSE_IMAGE
from tests.testbed.daemons import Daemons
from tests.testbed.isolation import cover, run
from tests.testbed.node_images import furnish
from tests.testbed.places import DNS_ADDRESS, DNS_DOMAIN, NODES, REPOSITORY, Node, State, cache_root
from tests.testbed.steps import granted

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
PID_FILE = "node.pid"
_START_SECONDS = 30
_CNI_PROGRAMS = "/usr/lib/cni"


def containerd_settings(node: Node, folder: Path) -> str:
    return f"""version = 2
root = "{folder}/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.internal.v1.opt",
]
[grpc]
address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
restrict_oom_score_adj = true
stream_server_address = "{node.address}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "runc"
SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{_CNI_PROGRAMS}"
conf_dir = "{folder}/cni"
"""


def network_settings(node: Node) -> dict[str, object]:
    """Each Pod gets a wire of its own to the namespace and is routed there: no bridge, so no bridge filter."""
    addresses = {"type": "host-local", "ranges": [[{"subnet": node.pod_range}]], "routes": [{"dst": "0.0.0.0/0"}]}
    return {
        "cniVersion": "0.4.0",
        "name": "testbed",
        "plugins": [{"type": "ptp", "ipMasq": False, "mtu": 1500, "ipam": addresses}],
    }


def kubelet_settings(state: State, node: Node, folder: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "healthzBindAddress": node.address,
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{state.cgroup}/{node.name}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "enforceNodeAllocatable": [],
        "evictionHard": {},
        # Images come from the cache and cannot be pulled again: a full disk must not remove them.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "podLogsDir": "/var/log/pods",
        "volumePluginDir": str(folder / "volume-plugins"),
        "resolvConf": str(folder / "resolv.conf"),
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": DNS_DOMAIN,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(state.credentials / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "serializeImagePulls": False,
        # A broker that finds its own old registration gives up at once: it should not wait for ever longer.
        "crashLoopBackOff": {"maxContainerRestartPeriod": "2s"},
        "nodeStatusUpdateFrequency": "5s",
    }


def kubelet_command(state: State, node: Node, folder: Path, kubernetes: Path) -> list[str]:
    return [
        f"{kubernetes}/kubelet",
        f"--config={folder}/kubelet.json",
        f"--kubeconfig={state.kubeconfig(credentials.file_name(credentials.node_user(node.name)))}",
        f"--root-dir={folder}/kubelet",
        f"--cert-dir={folder}/kubelet/pki",
        f"--node-ip={node.address}",
        f"--hostname-override={node.name}",
        f"--node-labels=topology.kubernetes.io/zone={node.zone}",
    ]


def _prepare(state: State, node: Node, folder: Path) -> None:
    run("mount", "--make-rshared", "/")
    keep = [state.root, cache_root(), REPOSITORY]
    for place in ("/run", "/var/lib", "/var/log"):
        cover(Path(place), keep)
    Path("/run/lock").mkdir()
    Path("/var/log/pods").mkdir()
    pod_logs = state.logs / "pods" / node.name
    pod_logs.mkdir(parents=True)
    run("mount", "--bind", str(pod_logs), "/var/log/pods")
    socket.sethostname(node.name)
    (folder / "cni").mkdir()
    (folder / "cni" / "10-testbed.conflist").write_text(json.dumps(network_settings(node)))
    (folder / "containerd.toml").write_text(containerd_settings(node, folder))
    (folder / "kubelet.json").write_text(json.dumps(kubelet_settings(state, node, folder)))
    # Of Pods that want the node's own names (dnsPolicy Default): it has none of its own.
    (folder / "resolv.conf").write_text(f"nameserver {DNS_ADDRESS}\noptions timeout:1 attempts:1\n")


def _await_socket() -> None:
    """A kubelet that finds no containerd ends, and is started again only after a pause."""
    deadline = granted() + _START_SECONDS
    while not Path(CONTAINERD_SOCKET).exists() and granted() < deadline:
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--kubernetes", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True)
    options = parser.parse_args()
    state = State(options.state)
    node = next(one for one in NODES if one.name == options.node)
    folder = state.node(node)
    folder.mkdir(parents=True)
    _prepare(state, node, folder)
    furnish(options.images, folder / "containerd")
    daemons = Daemons(state.logs)
    daemons.start(f"{node.name}-containerd", ["containerd", "--config", str(folder / "containerd.toml")])
    _await_socket()
    daemons.start(f"{node.name}-kubelet", kubelet_command(state, node, folder, options.kubernetes))
    (folder / PID_FILE).write_text(Path("/proc/self/stat").read_text().split()[0])
    daemons.tend()


if __name__ == "__main__":
    main()
