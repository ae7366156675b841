"""Brings the testbed up and down as a whole, and runs commands in it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.testbed import cgroups, credentials, processes
from tests.testbed.cache import locked
from tests.testbed.places import DNS_DOMAIN, NODES, REPOSITORY, STATE_VARIABLE, State, own_state
from tests.testbed.programs import Programs, programs
from tests.testbed.steps import StepFailedError, granted, say, tail, wait_for

_START_SECONDS = 120.0
_CHECKOUT_RECORD = "checkout"
STORAGE_CLASS = "testbed-disk"


def external_kubeconfig() -> str | None:
    """The caller's own cluster, if one was given; what runs inside the testbed sees the testbed's instead."""
    if os.environ.get(STATE_VARIABLE):
        return None
    return os.environ.get("KUBECONFIG") or None


def up() -> None:
    if (given := external_kubeconfig()) is not None:
        say(f"KUBECONFIG is set: using the cluster of {given}, starting none")
        return
    state = own_state()
    with locked(f"testbed-{state.key}", "this checkout's testbed"):
        if healthy(state):
            say(f"testbed {state.key} is up already")
            return
        _end_and_sweep(state)
        _sweep_abandoned(state)
        built = programs()
        try:
            _wait_until_usable(state, _start(state, built))
        except BaseException:
            processes.end(state)
            raise
    say(f"testbed {state.key} is up; try: make enter CMD='kubectl get nodes'")


def _start(state: State, built: Programs) -> subprocess.Popen[bytes]:
    say(f"starting the testbed (state: {state.root})")
    state.root.mkdir(parents=True, mode=0o755)
    (state.root / _CHECKOUT_RECORD).write_text(str(REPOSITORY))
    state.logs.mkdir()
    state.disks.mkdir()
    credentials.create(state)
    (state.root / "programs.json").write_text(json.dumps([str(place) for place in built.path]))
    for node in NODES:
        cgroups.create(f"{state.cgroup}/{node.name}")
    command = ["unshare", "--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc"]
    command += [sys.executable, "-m", processes.SUPERVISOR, "--state", str(state.root)]
    command += ["--kubernetes", str(built.kubernetes), "--images", str(built.images)]
    command += ["--etcd", str(built.etcd), "--coredns", str(built.coredns)]
    with (state.logs / "supervise.log").open("ab") as log:
        return subprocess.Popen(
            command,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )


class NotUpError(StepFailedError):
    def __init__(self) -> None:
        super().__init__("the testbed is not up: run `make up`")


def _wait_until_usable(state: State, started: subprocess.Popen[bytes]) -> None:
    def running() -> bool:
        if started.poll() is not None:
            raise StepFailedError(f"the testbed ended at once (exit {started.returncode})")
        return processes.supervisor(state) is not None

    def api_ready() -> bool:
        try:
            return running() and _kubectl(state, "get", "--raw", "/readyz").returncode == 0
        except NotUpError:  # in the moment of its exec a process has no command line, and is not found
            return False

    def names_resolve() -> bool:
        return running() and _resolves(state, f"kubernetes.default.svc.{DNS_DOMAIN}")

    def nodes_ready() -> bool:
        return running() and len(ready_nodes(state)) == len(NODES)

    try:
        wait_for("the API server", api_ready, _START_SECONDS)
        say("  the API server is ready")
        _create_storage_class(state)
        wait_for("the name server", names_resolve, _START_SECONDS)
        wait_for("the nodes", nodes_ready, _START_SECONDS)
        _report_disks(state)
        say(f"  the nodes are ready: {', '.join(node.name for node in NODES)}")
    except StepFailedError as fault:
        raise StepFailedError(f"{fault}\nLogs: {state.logs}\n{tail(state.logs / 'supervise.log')}") from fault


def _report_disks(state: State) -> None:
    """A kubelet that does not bound local storage reports none, and Pods that ask for some would never be scheduled."""
    room = [
        {"op": "add", "path": f"/status/{held}/ephemeral-storage", "value": "100Gi"}
        for held in ("capacity", "allocatable")
    ]
    for node in NODES:
        _kubectl(state, "patch", "node", node.name, "--subresource=status", "--type=json", "-p", json.dumps(room))


def _create_storage_class(state: State) -> None:
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "Immediate",
    }

    def applied() -> bool:
        return _kubectl(state, "apply", "-f", "-", given=json.dumps(storage)).returncode == 0

    wait_for("the storage class", applied, _START_SECONDS)


def _kubectl(state: State, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    command = enter_command(state, ["kubectl", *arguments])
    return subprocess.run(
        command, input=given, capture_output=True, text=True, env=environment(state), check=False, timeout=60
    )


def _resolves(state: State, name: str) -> bool:
    command = enter_command(state, ["getent", "ahostsv4", name], names=True)
    return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0


def ready_nodes(state: State) -> list[str]:
    listed = _kubectl(state, "get", "nodes", "-o", "json")
    if listed.returncode != 0:
        return []
    return [
        node["metadata"]["name"]
        for node in json.loads(listed.stdout)["items"]
        for condition in node["status"].get("conditions", [])
        if condition["type"] == "Ready" and condition["status"] == "True"
    ]


def healthy(state: State) -> bool:
    return processes.supervisor(state) is not None and len(ready_nodes(state)) == len(NODES)


def enter_command(state: State, command: Sequence[str], *, names: bool = False) -> list[str]:
    """The command as it has to be run so that it is in the testbed's network; with `names`, asking its name server."""
    if processes.inside(state):
        return list(command)
    first = processes.supervisor(state)
    if first is None:
        raise NotUpError
    entered = ["nsenter", f"--net=/proc/{first}/ns/net", "--"]
    if names:
        # The C library reads this one file, so the machine's own is covered for the command alone.
        script = f'mount --bind "{state.resolver}" /etc/resolv.conf && exec "$@"'
        entered += ["unshare", "--mount", "sh", "-c", script, "sh"]
    return [*entered, *command]


def environment(state: State, user: str = "admin") -> dict[str, str]:
    folders: list[str] = json.loads((state.root / "programs.json").read_text())
    return {
        **os.environ,
        "PATH": os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)]),
        "KUBECONFIG": str(state.kubeconfig(credentials.file_name(user))),
        STATE_VARIABLE: str(state.root),
    }


def enter(command: Sequence[str]) -> int:
    """Run a command in the testbed's network, with its kubectl, helm and KUBECONFIG."""
    if external_kubeconfig() is not None:
        return subprocess.run(list(command), check=False).returncode
    state = own_state()
    entered = enter_command(state, command, names=True)
    return subprocess.run(entered, env=environment(state), check=False).returncode


def in_node(state: State, node_name: str, command: Sequence[str]) -> list[str]:
    """The command as it has to be run so that it sees one node's private folders (/run, its containerd)."""
    first = processes.supervisor(state)
    if first is None:
        raise NotUpError
    number = (state.root / "nodes" / node_name / "node.pid").read_text()
    outer = ["nsenter", "--target", str(first), "--mount", "--pid", "--net", "--ipc", "--"]
    return [*outer, "nsenter", "--target", number, "--mount", "--", *command]


def down() -> None:
    if external_kubeconfig() is not None:
        say("KUBECONFIG is set: the cluster is not this testbed's to end")
        return
    state = own_state()
    with locked(f"testbed-{state.key}", "this checkout's testbed"):
        if _end_and_sweep(state):
            with contextlib.suppress(OSError):
                state.root.parent.rmdir()
            say(f"testbed {state.key} is down; nothing of it is left")
        else:
            say(f"testbed {state.key} was not up")


def _end_and_sweep(state: State) -> bool:
    ended = processes.end(state)
    busy = cgroups.remove(state.cgroup)
    if busy:
        raise StepFailedError(f"control groups still busy: {busy}")
    swept = state.root.exists()
    deadline = granted() + 20
    while state.root.exists():
        # What ends only now may still write.
        shutil.rmtree(state.root, ignore_errors=granted() < deadline)
    if not ended and swept:
        say("  swept up what an earlier run had left")
    return ended or swept


def _sweep_abandoned(own: State) -> None:
    """End what belongs to checkouts that exist no more: nobody could take it down any longer."""
    for other in own.root.parent.iterdir() if own.root.parent.is_dir() else ():
        record = other / _CHECKOUT_RECORD
        if other != own.root and record.is_file() and not Path(record.read_text()).exists():
            say(f"  ending the testbed of {record.read_text()}, which is gone")
            with locked(f"testbed-{other.name}", "that testbed"):
                _end_and_sweep(State(other))


def status() -> int:
    if (given := external_kubeconfig()) is not None:
        print(f"external cluster: {given}")
        return subprocess.run(["kubectl", "get", "nodes"], check=False).returncode
    state = own_state()
    first = processes.supervisor(state)
    if first is None:
        print(f"testbed {state.key}: down")
        return 1
    print(f"testbed {state.key}: up, first process {first}, state {state.root}", flush=True)
    code = subprocess.run(enter_command(state, ["kubectl", "get", "nodes"]), env=environment(state), check=False)
    pods = enter_command(state, ["kubectl", "get", "pods", "-A", "-o", "wide"])
    subprocess.run(pods, env=environment(state), check=False)
    return code.returncode


def logs(names: Sequence[str]) -> int:
    """Print the end of the named programs' logs, or of all."""
    folder = own_state().logs
    files: list[Path] = sorted(folder.glob("*.log"))
    for file in files:
        if not names or file.stem in names:
            print(f"==> {file}\n{tail(file)}\n")
    return 0 if files else 1
