"""The first process of a testbed's namespaces: sets them up, starts everything, reaps what ends.

It is process 1 of a pid namespace. When it goes, by whatever cause, the kernel ends every other process of the testbed
with it, and with the last of them go the mounts and the network.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.testbed import control_plane
from tests.testbed.daemons import Daemons
from tests.testbed.isolation import cover, raise_network, shadow_kernel_settings
from tests.testbed.places import NODES, REPOSITORY, State, cache_root


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--kubernetes", type=Path, required=True)
    parser.add_argument("--etcd", type=Path, required=True)
    parser.add_argument("--coredns", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True)
    options = parser.parse_args()
    if os.getpid() != 1:
        sys.exit("this is started by `up`, as the first process of a pid namespace")
    state = State(options.state)
    kubernetes: Path = options.kubernetes
    cover(Path("/run"), [state.root, cache_root(), REPOSITORY])
    shadow_kernel_settings(state.root / "kernel-settings")
    raise_network()
    control_plane.write_settings(state)
    daemons = Daemons(state.logs)
    daemons.start("etcd", control_plane.etcd(state, options.etcd))
    daemons.start("kube-apiserver", control_plane.apiserver(state, kubernetes))
    daemons.start("kube-controller-manager", control_plane.controller_manager(state, kubernetes))
    daemons.start("kube-scheduler", control_plane.scheduler(state, kubernetes))
    daemons.start("kube-proxy", control_plane.proxy(state, kubernetes))
    daemons.start("coredns", control_plane.coredns(state, options.coredns))
    for node in NODES:
        command = ["unshare", "--mount", "--uts", sys.executable, "-m", "tests.testbed.node"]
        places = ["--state", str(state.root), "--kubernetes", str(kubernetes), "--images", str(options.images)]
        # A node that fails to start is a fault to be seen, and half of it may still be running: it is left so.
        daemons.start(node.name, [*command, "--node", node.name, *places], again=False)
    print("everything is started", flush=True)
    daemons.tend()


if __name__ == "__main__":
    main()
