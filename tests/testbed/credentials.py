"""Certificates, tokens and kubeconfigs of one testbed: made anew for each start, never leaving its state."""

from __future__ import annotations

import json
import secrets
import subprocess
from pathlib import Path

from tests.testbed.places import (
    API_PORT,
    CONTROL_PLANE_ADDRESS,
    KUBERNETES_SERVICE_ADDRESS,
    NODES,
    State,
)

PEOPLE = ("alice", "bob", "carol", "mallory")
SCHEDULER = "system:kube-scheduler"
CONTROLLER_MANAGER = "system:kube-controller-manager"
PROXY = "system:kube-proxy"


def node_user(node_name: str) -> str:
    return f"system:node:{node_name}"


def create(state: State) -> None:
    folder = state.credentials
    folder.mkdir(parents=True, mode=0o700)
    _authority(folder)
    _server(folder)
    _openssl("genrsa", "-out", str(folder / "accounts.key"), "2048")
    _client(folder, "kubelet-client", "kafka-medic-testbed-apiserver", "system:masters")
    _users(state)


def file_name(user: str) -> str:
    """A user's name as part of a file name."""
    return user.replace(":", "-")


def _users(state: State) -> None:
    users: dict[str, str] = {"admin": "system:masters"}
    users.update(dict.fromkeys((*PEOPLE, SCHEDULER, CONTROLLER_MANAGER, PROXY), ""))
    users.update({node_user(node.name): "system:nodes" for node in NODES})
    rows = []
    for user, group in users.items():
        token = secrets.token_hex(16)
        rows.append(f'{token},{user},{user},"{group}"' if group else f"{token},{user},{user}")
        _kubeconfig(state, user, token)
    tokens = state.credentials / "tokens.csv"
    tokens.touch(mode=0o600)
    tokens.write_text("\n".join(rows) + "\n")


def _kubeconfig(state: State, user: str, token: str) -> None:
    configuration = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "testbed",
                "cluster": {
                    "server": f"https://{CONTROL_PLANE_ADDRESS}:{API_PORT}",
                    "certificate-authority": str(state.credentials / "ca.crt"),
                },
            }
        ],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": user}}],
        "current-context": "testbed",
    }
    path = state.kubeconfig(file_name(user))
    path.touch(mode=0o600)
    path.write_text(json.dumps(configuration, indent=1))


def _authority(folder: Path) -> None:
    subject = ["-subj", "/CN=kafka-medic-testbed", "-days", "3650", "-nodes", "-newkey", "rsa:2048"]
    usage = ["-addext", "keyUsage=critical,keyCertSign,digitalSignature"]
    _openssl("req", "-x509", *subject, *usage, "-keyout", str(folder / "ca.key"), "-out", str(folder / "ca.crt"))


def _server(folder: Path) -> None:
    addresses = [CONTROL_PLANE_ADDRESS, KUBERNETES_SERVICE_ADDRESS, "127.0.0.1"]
    names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    alternatives = ",".join([f"IP:{one}" for one in addresses] + [f"DNS:{one}" for one in names])
    _sign(folder, "apiserver", "/CN=kube-apiserver", f"subjectAltName={alternatives}\nextendedKeyUsage=serverAuth\n")


def _client(folder: Path, file: str, user: str, group: str) -> None:
    _sign(folder, file, f"/O={group}/CN={user}", "extendedKeyUsage=clientAuth\n")


def _sign(folder: Path, file: str, subject: str, extensions: str) -> None:
    key, request = folder / f"{file}.key", folder / f"{file}.csr"
    settings = folder / f"{file}.ext"
    settings.write_text(extensions)
    _openssl(
        "req", "-new", "-nodes", "-newkey", "rsa:2048", "-subj", subject, "-keyout", str(key), "-out", str(request)
    )
    authority = ["-CA", str(folder / "ca.crt"), "-CAkey", str(folder / "ca.key"), "-CAcreateserial", "-days", "3650"]
    _openssl(
        "x509", "-req", "-in", str(request), *authority, "-extfile", str(settings), "-out", str(folder / f"{file}.crt")
    )


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")
