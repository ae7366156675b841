"""What a release is made of is the same in every build, and says of itself what is in it."""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from plugin.build import OUTPUT
from release import packages
from release.archives import sha256, tar_gz
from release.chart import packaged_chart, with_digest
from release.images import OPERATOR, SPARK, Built, Recipe, debian_packages, jars, materials, python_packages
from release.packages import checksums, krew
from tests.testbed.steps import StepFailedError
from tests.unit.resources.sources import CHART, ROOT

STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u9

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: openssl
Status: install ok installed
Architecture: amd64
Version: 1:3.0
"""


def test_the_same_files_make_the_same_archive(tmp_path: Path) -> None:
    files = {"b": (b"2", 0o644), "a": (b"1", 0o755)}
    tar_gz(tmp_path / "one", files, 1_700_000_000)
    tar_gz(tmp_path / "two", dict(reversed(files.items())), 1_700_000_000)
    assert sha256(tmp_path / "one") == sha256(tmp_path / "two")
    with tarfile.open(tmp_path / "one") as tar:
        assert [(m.name, m.mode, m.mtime, m.uid) for m in tar] == [
            ("a", 0o755, 1_700_000_000, 0),
            ("b", 0o644, 1_700_000_000, 0),
        ]


def test_the_packaged_chart_names_both_images_by_digest() -> None:
    text = (CHART / "values.yaml").read_text()
    digests = {recipe.name: f"sha256:{n * 64}" for recipe, n in ((OPERATOR, "a"), (SPARK, "b"))}
    for name, digest in digests.items():
        text = with_digest(text, name, f"registry.test/{name}", digest)
    values = yaml.safe_load(text)
    for image, name in ((values["image"], OPERATOR.name), (values["spark"]["image"], SPARK.name)):
        assert (image["repository"], image["digest"]) == (f"registry.test/{name}", digests[name])
    assert yaml.safe_load((CHART / "values.yaml").read_text())["image"]["digest"] == ""
    with pytest.raises(StepFailedError):
        with_digest(text, OPERATOR.name, "registry.test/x", digests[OPERATOR.name])


def test_the_plugin_is_built_from_the_tree_of_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, output = tmp_path / "tree", tmp_path / "output"
    tree.mkdir()
    output.mkdir()
    (tree / "LICENSE").write_text("licence")

    def made(_: str, command: list[str], __: Path, *, cwd: Path, environment: dict[str, str]) -> None:
        assert (command, cwd, environment) == (["make", "plugin"], tree, {"SOURCE_DATE_EPOCH": "7"})
        (tree / "build").mkdir()
        (tree / "build" / OUTPUT.name).write_bytes(b"#!/usr/bin/env python3\n")

    monkeypatch.setattr(packages, "run_logged", made)
    packages.plugin(tree, output, "1.2.3", 7, tmp_path)
    names = {"krew-kafka-medic.yaml", "kubectl-kafka_medic", "kubectl-kafka_medic-1.2.3.tar.gz"}
    assert {file.name for file in output.iterdir()} == names
    assert (output / "kubectl-kafka_medic").stat().st_mode & 0o111


def test_the_manifest_of_the_plugin_names_exactly_this_archive(tmp_path: Path) -> None:
    archive = tmp_path / "kubectl-kafka_medic-1.2.3.tar.gz"
    tar_gz(archive, {"kubectl-kafka_medic": (b"#!/usr/bin/env python3\n", 0o755)}, 0)
    manifest = yaml.safe_load(krew("1.2.3", archive))
    (platform,) = manifest["spec"]["platforms"]
    assert manifest["spec"]["version"] == "v1.2.3"
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert platform["uri"].endswith(f"/v1.2.3/{archive.name}")
    assert platform["bin"] == platform["files"][0]["from"]
    assert len(manifest["spec"]["shortDescription"]) <= 50, "what krew's index takes"


def test_checksums_are_what_sha256sum_reads(tmp_path: Path) -> None:
    for name in ("b.whl", "a.tgz"):
        (tmp_path / name).write_text(name)
    checksums(tmp_path)
    assert len((tmp_path / "SHA256SUMS").read_text().splitlines()) == 2
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path, check=True)


def test_a_bill_of_materials_has_packages_of_debian_and_python_and_jars(tmp_path: Path) -> None:
    (tmp_path / "var" / "lib" / "dpkg").mkdir(parents=True)
    (tmp_path / "var" / "lib" / "dpkg" / "status").write_text(STATUS)
    folder = tmp_path / "opt/kafka-medic/lib/python3.11/site-packages/pyspark/jars"
    folder.mkdir(parents=True)
    (folder / "netty-all-4.1.118.Final.jar").write_bytes(b"jar")
    assert [c["purl"] for c in debian_packages(tmp_path)] == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u9?arch=amd64",
        "pkg:deb/debian/openssl@1%3A3.0?arch=amd64",
    ]
    assert [(c["name"], c["version"]) for c in jars(tmp_path)] == [("netty-all", "4.1.118.Final")]
    packages = {c["name"]: c for c in python_packages(ROOT / OPERATOR.lock)}
    locked = [
        line for line in (ROOT / OPERATOR.lock).read_text().splitlines() if "==" in line and not line.startswith(" ")
    ]
    assert len(locked) >= len(packages) > 40
    assert {"kopf", "pyarrow", "confluent-kafka"} <= packages.keys()
    recipe = Recipe("x", "Dockerfile", OPERATOR.lock)
    bill = materials(recipe, "1", 1_700_000_000, tmp_path, ROOT)
    assert bill == materials(recipe, "1", 1_700_000_000, tmp_path, ROOT)
    references = [c["bom-ref"] for c in bill["components"]]
    assert len(references) == len(set(references)) == len(locked) + 3
    assert bill["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"


def test_the_workflow_publishes_what_make_release_builds_and_asks_for_no_right_that_it_does_not_use() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {}
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert build["permissions"] == {"contents": "read"}
    assert "write" not in str(build["permissions"])
    assert publish["needs"] == "build"
    assert "make release" in text
    for recipe in (OPERATOR, SPARK):
        assert recipe.name in text
    assert "pull_request" not in text


def test_a_package_of_the_chart_is_made_of_the_charts_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """helm's own lint is left to `make chart`."""
    tree = tmp_path / "tree"
    (tree / "charts").mkdir(parents=True)
    subprocess.run(["cp", "-r", CHART, tree / "charts"], check=True)
    monkeypatch.setattr("release.chart.build.helm", lambda: tmp_path)
    (tmp_path / "helm").write_text("#!/bin/sh\n")
    (tmp_path / "helm").chmod(0o755)
    built = {r.name: Built(tmp_path / "x", f"sha256:{'a' * 64}", 0) for r in (OPERATOR, SPARK)}
    packaged_chart(tree, tmp_path, "0.1.0", 1_700_000_000, "registry.test", built)
    with tarfile.open(tmp_path / "kafka-medic-chart-0.1.0.tgz") as tar:
        names = set(tar.getnames())
        about = yaml.safe_load(tar.extractfile("kafka-medic/Chart.yaml").read())
    assert {"kafka-medic/values.yaml", "kafka-medic/files/alerts.yaml", "kafka-medic/templates/crds.yaml"} <= names
    assert not any(name.endswith(".helmignore") for name in names)
    images = {i["image"] for i in yaml.safe_load(about["annotations"]["artifacthub.io/images"])}
    assert images == {f"registry.test/{name}@sha256:{'a' * 64}" for name in built}
