"""The images as OCI archives, and the bill of materials of each: its Debian packages, Python packages and jars."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.testbed.build import debian_base
from tests.testbed.cache import locked
from tests.testbed.places import cache_root
from tests.testbed.steps import StepFailedError, run_logged

Component = dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    """`lock`: of the Python packages in it."""

    name: str
    dockerfile: str
    lock: str


OPERATOR = Recipe("kafka-medic", "Dockerfile", "locks/runtime.txt")
SPARK = Recipe("kafka-medic-spark", "images/spark/Dockerfile", "locks/spark.txt")


@dataclass(frozen=True)
class Built:
    """`digest`: of the manifest, by which a registry names the image. `unpacked`: bytes of all files."""

    archive: Path
    digest: str
    unpacked: int


class Store:
    """buildah with the store of the testbed, which keeps the layers below the project's own code."""

    def __init__(self, tree: Path, epoch: int, base: str, logs: Path, *, cached: bool) -> None:
        self._tree, self._epoch, self._logs, self._cached = tree, epoch, logs, cached
        self._base = base
        store = cache_root() / "buildah"
        places = ["--root", str(store / "root"), "--runroot", str(store / "run")]
        self._buildah = ["buildah", *places, "--storage-driver", "overlay"]

    def build(self, recipe: Recipe, version: str, output: Path) -> Built:
        """Every file and layer is dated by the commit."""
        archive, told = output / f"{recipe.name}-{version}.oci.tar", output / f"{recipe.name}.digest"
        name, log = f"localhost/release/{recipe.name}:{version}", self._logs / f"{recipe.name}.log"
        with locked("buildah", "an image build"):
            options = ["--layers"] if self._cached else ["--no-cache"]
            labels = {
                "org.opencontainers.image.title": recipe.name,
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "Apache-2.0",
                "org.opencontainers.image.url": "https://kafkamedic.dev",
            }
            options += [flag for key, value in labels.items() for flag in ("--label", f"{key}={value}")]
            certificates = "/etc/ssl/certs/ca-certificates.crt"
            options += [
                "--network",
                "host",
                "--volume",
                f"{certificates}:{certificates}:ro",
                "--timestamp",
                str(self._epoch),
            ]
            options += [
                "--build-arg",
                f"BASE={self._base_image(log)}",
                "-f",
                str(self._tree / recipe.dockerfile),
                "-t",
                name,
            ]
            self._run(f"image {recipe.name} (minutes without a cache)", log, "build", *options, str(self._tree))
            self._run(
                f"archive of {recipe.name}",
                log,
                "push",
                "--digestfile",
                str(told),
                name,
                f"oci-archive:{archive}:{version}",
            )
            mounted = self._ask("from", "--pull-never", name)
            root = Path(self._ask("mount", mounted))
            try:
                unpacked = sum(f.stat().st_size for f in root.rglob("*") if f.is_file() and not f.is_symlink())
                bill = materials(recipe, version, self._epoch, root, self._tree)
            finally:
                self._ask("rm", mounted)
        (output / f"{recipe.name}-{version}.cdx.json").write_text(json.dumps(bill, indent=1) + "\n")
        found = Built(archive, told.read_text().strip(), unpacked)
        told.unlink()
        return found

    def _base_image(self, log: Path) -> str:
        if self._base != "testbed":
            if "@sha256:" not in self._base:
                raise StepFailedError(
                    f"--base {self._base} names no digest; write {self._base}@sha256:..., or `make pin-base`"
                )
            return self._base
        base = debian_base()
        name = f"localhost/kafka-medic-{base.name}"
        if not self._ask("images", "--quiet", "--filter", f"reference={name}"):
            scratch = self._ask("from", "scratch")
            self._run("base image", log, "add", scratch, str(base / "base.tar"), "/")
            self._run("base image", log, "commit", "--rm", "--timestamp", "0", scratch, name)
        return name

    def _run(self, title: str, log: Path, *arguments: str) -> None:
        run_logged(title, [*self._buildah, *arguments], log, environment={"BUILDAH_ISOLATION": "chroot"})

    def _ask(self, *arguments: str) -> str:
        environment = {**os.environ, "BUILDAH_ISOLATION": "chroot"}
        done = subprocess.run(
            [*self._buildah, *arguments], capture_output=True, text=True, check=False, env=environment
        )
        if done.returncode != 0:
            raise StepFailedError(f"buildah {arguments[0]} failed: {done.stderr.strip()}")
        return done.stdout.strip()


def materials(recipe: Recipe, version: str, epoch: int, root: Path, tree: Path) -> dict[str, Any]:
    """A CycloneDX bill of materials. `root`: the image's files."""
    components = [*debian_packages(root), *python_packages(tree / recipe.lock), *jars(root)]
    components.sort(key=lambda one: str(one["bom-ref"]))
    known = hashlib.sha256(json.dumps(components).encode()).hexdigest()
    serial = f"{known[:8]}-{known[8:12]}-5{known[13:16]}-8{known[17:20]}-{known[20:32]}"
    own = {"type": "container", "bom-ref": recipe.name, "name": recipe.name, "version": version}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"timestamp": f"{datetime.fromtimestamp(epoch, UTC):%Y-%m-%dT%H:%M:%SZ}", "component": own},
        "components": components,
    }


def _component(kind: str, name: str, version: str, purl: str, **more: Any) -> Component:
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl, **more}


def debian_packages(root: Path) -> list[Component]:
    """Of dpkg's own list."""
    found = []
    for entry in (root / "var" / "lib" / "dpkg" / "status").read_text().split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Architecture|Status): (.+)$", entry, re.MULTILINE))
        if fields.get("Status") == "install ok installed":
            version = fields["Version"].replace(":", "%3A").replace("+", "%2B")
            purl = f"pkg:deb/debian/{fields['Package']}@{version}?arch={fields['Architecture']}"
            found.append(_component("library", fields["Package"], fields["Version"], purl))
    return found


def python_packages(lock: Path) -> list[Component]:
    """Exactly those of the lock, which pip installs with --require-hashes. Of two versions of one package, for two
    versions of Python, one is in the image; both are listed, with what they are for."""
    found = []
    for name, version, marker in re.findall(
        r"^([\w.-]+)==([\w.!+-]+)(?: ; (.+?))? \\$", lock.read_text(), re.MULTILINE
    ):
        more = {"properties": [{"name": "kafka-medic:marker", "value": marker}]} if marker else {}
        found.append(_component("library", name, version, f"pkg:pypi/{name.lower()}@{version}", **more))
    return found


def jars(root: Path) -> list[Component]:
    """What lies in Spark's folder, by the name of each file, with its hash."""
    found = []
    for file in sorted(root.glob("opt/kafka-medic/lib/python3*/site-packages/pyspark/jars/*.jar")):
        name, _, version = re.fullmatch(r"(.+?)(-(\d[\w.+-]*))?", file.stem).groups()  # type: ignore[union-attr]
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        hashes = [{"alg": "SHA-256", "content": digest}]
        found.append(_component("library", name, version or "", f"pkg:generic/{file.name}", hashes=hashes))
    return found
