"""Puts an image into the running nodes, sending only what they do not have."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any, cast

from tests.testbed import cluster
from tests.testbed.node import CONTAINERD_SOCKET
from tests.testbed.places import NODES, State, own_state

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIGURATION = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"


def load_image(archive: Path | str) -> None:
    """Load a docker-archive into every node of the testbed, at once."""
    state = own_state()
    with tempfile.NamedTemporaryFile(dir=state.root, prefix="image-", suffix=".tar") as slim:
        _without_known_layers(Path(archive), Path(slim.name), state)
        command = ["ctr", "-a", CONTAINERD_SOCKET, "-n", "k8s.io", "images", "import", slim.name]
        running = [
            subprocess.Popen(
                cluster.in_node(state, node.name, command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            for node in NODES
        ]
        for process in running:
            said, _ = process.communicate(timeout=300)
            if process.returncode != 0:
                raise RuntimeError(f"{archive} could not be loaded: {said}")


def _known(state: State, digest: str) -> bool:
    """Whether every node holds this content already."""
    store = Path("containerd") / "io.containerd.content.v1.content" / "blobs" / "sha256"
    return all((state.node(node) / store / digest).exists() for node in NODES)


def _without_known_layers(archive: Path, slim: Path, state: State) -> None:
    """Rewrite a docker-archive as an OCI archive, which may leave out layers that its reader has."""
    with tarfile.open(archive) as full, tarfile.open(slim, "w") as out:
        image = json.loads(_read(full, "manifest.json"))[0]
        configuration = _read(full, image["Config"])
        identities = [identity.partition(":")[2] for identity in json.loads(configuration)["rootfs"]["diff_ids"]]
        layers: list[dict[str, Any]] = []
        for name, digest in zip(image["Layers"], identities, strict=True):
            entry = full.getmember(name)
            while entry.issym():
                entry = full.getmember(entry.linkname.removeprefix("../"))
            layers.append({"mediaType": _LAYER, "digest": f"sha256:{digest}", "size": entry.size})
            if not _known(state, digest):
                _add(out, f"blobs/sha256/{digest}", cast("io.BufferedReader", full.extractfile(entry)), entry.size)
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": _put(out, configuration, _CONFIGURATION),
                "layers": layers,
            }
        ).encode()
        entries = [
            {**_put(out, manifest, _MANIFEST), "annotations": {"io.containerd.image.name": name}}
            for name in image["RepoTags"]
        ]
        index = json.dumps({"schemaVersion": 2, "manifests": entries}).encode()
        _add(out, "index.json", io.BytesIO(index), len(index))
        layout = b'{"imageLayoutVersion": "1.0.0"}'
        _add(out, "oci-layout", io.BytesIO(layout), len(layout))


def _read(tar: tarfile.TarFile, name: str) -> bytes:
    return cast("io.BufferedReader", tar.extractfile(name)).read()


def _put(tar: tarfile.TarFile, content: bytes, kind: str) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    _add(tar, f"blobs/sha256/{digest}", io.BytesIO(content), len(content))
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}


def _add(tar: tarfile.TarFile, path: str, content: io.BufferedIOBase, size: int) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = size, 0o644
    tar.addfile(entry, content)
