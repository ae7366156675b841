"""Private mounts and a private network, set up from inside the namespaces of one testbed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.testbed.places import CONTROL_PLANE_ADDRESS, DNS_ADDRESS, NODES, SERVICE_RANGE

_KERNEL_SETTINGS = {
    # What a kubelet wants of the whole machine. It finds these values and so leaves the machine's own alone.
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
_DEVICE = "medic0"


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


def cover(folder: Path, keep: list[Path]) -> None:
    """Put an empty folder over one of the machine's, so that what is written there ends with the testbed.

    Places in `keep` stay reachable even when they lie below the covered folder.
    """
    if not folder.is_dir():
        return
    real = folder.resolve()
    below = [place.resolve() for place in keep if place.resolve().is_relative_to(real)]
    held = [(place, os.open(place, os.O_PATH | os.O_DIRECTORY)) for place in below]
    run("mount", "-t", "tmpfs", "-o", "mode=755", "kafka-medic", str(real))
    for place, descriptor in held:
        place.mkdir(parents=True)
        run("mount", "--rbind", f"/proc/{os.getpid()}/fd/{descriptor}", str(place))
        os.close(descriptor)


def shadow_kernel_settings(folder: Path) -> None:
    """Lay plain files over the kernel settings that a kubelet would change for the whole machine."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in _KERNEL_SETTINGS.items():
        target = Path("/proc/sys") / name
        if target.exists():
            stand_in = folder / name.replace("/", ".")
            stand_in.write_text(value + "\n")
            run("mount", "--bind", str(stand_in), str(target))


def raise_network() -> None:
    """Loopback, one bridge (of nothing) that carries the nodes' addresses, and forwarding between Pods."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", _DEVICE, "type", "bridge")
    for address in (CONTROL_PLANE_ADDRESS, *(node.address for node in NODES)):
        run("ip", "address", "add", f"{address}/24", "dev", _DEVICE)
    run("ip", "address", "add", f"{DNS_ADDRESS}/32", "dev", _DEVICE)
    run("ip", "link", "set", _DEVICE, "up")
    # Processes outside Pods need some route to a Service's address before it is rewritten to a Pod's. There is no
    # default route: whatever lies outside the testbed is refused at once.
    run("ip", "route", "add", SERVICE_RANGE, "dev", _DEVICE, "src", CONTROL_PLANE_ADDRESS)
    settings = Path("/proc/sys/net/ipv4")
    (settings / "ip_forward").write_text("1")
    for scope in ("all", "default"):
        (settings / "conf" / scope / "rp_filter").write_text("0")
        (settings / "conf" / scope / "send_redirects").write_text("0")
