"""Strimzi's images and manifests, built from Strimzi's source and Maven Central: no registry of images is needed.

Cruise Control is built from its own source: Maven Central never had it.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from tests.testbed.build import copy_jars, debian_base, strimzi_kafka, write_image
from tests.testbed.cache import digest, ensure
from tests.testbed.places import SOURCES
from tests.testbed.preflight import java_development_kit
from tests.testbed.steps import StepFailedError, run_logged

VERSION = "1.2.0"
KAFKA_VERSION = "4.3.1"
OPERATOR_IMAGE = f"kafka-medic.invalid/strimzi-operator:{VERSION}"
KAFKA_IMAGE = f"kafka-medic.invalid/strimzi-kafka:{VERSION}-kafka-{KAFKA_VERSION}"
CRUISE_CONTROL_VERSION = "2.5.146"
CRUISE_CONTROL_IMAGE = f"kafka-medic.invalid/strimzi-cruise-control:{VERSION}-{CRUISE_CONTROL_VERSION}"
SOURCE_VARIABLE = "STRIMZI_SOURCE"
CRUISE_CONTROL_SOURCE_VARIABLE = "CRUISE_CONTROL_SOURCE"
_PUBLIC_SOURCE = "https://github.com/strimzi/strimzi-kafka-operator.git"
_CRUISE_CONTROL_PUBLIC_SOURCE = "https://github.com/linkedin/cruise-control.git"
_CRUISE_CONTROL_CODE = (
    "cruise-control-core/src/main/java",
    "cruise-control-metrics-reporter/src/main/java",
    "cruise-control/src/main/java",
)
_MODULES = ("cluster-operator", "kafka-agent", "kafka-init", "topic-operator", "tracing-agent", "user-operator")
_JDK_FIRST = 21
_USER = "1001:0"
_PACKAGES = ("curl", "gawk", "hostname", "net-tools", "openssl", "procps", "tini")
_JAVA_MODULES = (
    "java.se",
    "jdk.crypto.ec",
    "jdk.httpserver",
    "jdk.management",
    "jdk.management.agent",
    "jdk.unsupported",
    "jdk.zipfs",
)
_POM = "http://maven.apache.org/POM/4.0.0"
_ONLY_TESTS = ("docker-java", "hamcrest", "junit", "mockito", "mockkube", "opentest4j", "test-container", "wiremock")
# Maven Central never had Cruise Control, and mirrors of it lack some of the others.
_NOT_USED = ("cruise-control", "kafka-oauth", "kafka-quotas-plugin", "server-metrics-reporter")
# Strimzi's own, or the newest before those that Maven Central has as a whole and that know the JDK.
_VERSIONS = {
    "lombok": "1.18.42",
    "fabric8.kubernetes-client": "7.7.0",
    "fabric8.openshift-client": "7.7.0",
    "fabric8.kubernetes-model": "7.7.0",
    "fabric8.zjsonpatch": "7.7.0",
    "vertx": "5.2.3",
}
_SKIPPED = (
    "-Dmaven.test.skip=true",
    "-Dmaven.javadoc.skip=true",
    "-Dcheckstyle.skip",
    "-Dspotbugs.skip",
    "-Dmdep.analyze.skip=true",
    "-Djacoco.skip=true",
    # It writes the CRDs and the documentation anew, which a release has.
    "-Dexec.skip=true",
)


class StrimziImages(NamedTuple):
    """Archives of the two images, and the folder of the manifests that install the cluster operator."""

    operator: Path
    kafka: Path
    manifests: Path


def strimzi_images() -> StrimziImages:
    """Built once, in about five minutes. Raises StepFailedError that names the variable where the source is not to be
    had."""
    base = debian_base(_PACKAGES)
    jars = strimzi_kafka()

    def build(folder: Path, log: Path) -> None:
        work = folder / "work"
        work.mkdir()
        java = _jdk()
        tree = work / "source"
        _fetch_source(tree, log)
        _slim_poms(tree)
        _write_config_model(tree, jars, java, log)
        _package(tree, java, log)
        runtime = _java_runtime(work, java, log)
        layers = [base / "base.tar", runtime]
        operator = _operator_layer(tree, work)
        kafka = _kafka_layer(tree, work, jars, log)
        environment = ["PATH=/opt/java/bin:/usr/local/bin:/usr/bin:/bin", "JAVA_HOME=/opt/java"]
        write_image(
            folder / "operator.tar",
            OPERATOR_IMAGE,
            [*layers, operator],
            Env=[*environment, f"STRIMZI_VERSION={VERSION}", "STRIMZI_HOME=/opt/strimzi"],
            User=_USER,
            WorkingDir="/opt/strimzi",
        )
        write_image(
            folder / "kafka.tar",
            KAFKA_IMAGE,
            [*layers, kafka],
            Env=[
                *environment,
                f"STRIMZI_VERSION={VERSION}",
                f"KAFKA_VERSION={KAFKA_VERSION}",
                "KAFKA_HOME=/opt/kafka",
            ],
            User=_USER,
            WorkingDir="/opt/kafka",
        )
        shutil.copytree(tree / "install" / "cluster-operator", folder / "manifests")
        shutil.rmtree(work)

    key = digest(base.name, jars.name, SOURCES / "strimzi", f"{_VERSIONS} {_MODULES} {_JAVA_MODULES} 1")
    folder = ensure("strimzi", VERSION, key, f"Strimzi {VERSION}", build)
    return StrimziImages(folder / "operator.tar", folder / "kafka.tar", folder / "manifests")


def cruise_control_image() -> Path:
    """The archive of an image that is Strimzi's Kafka with Cruise Control beside it, for its brokers and for Cruise
    Control itself. Raises StepFailedError that names the variable where the source is not to be had."""
    kafka = strimzi_images().kafka

    def build(folder: Path, log: Path) -> None:
        work = folder / "work"
        work.mkdir()
        scripts = work / "strimzi"
        _fetch_source(scripts, log)
        added = _cruise_control_layer(scripts, work, log)
        with tarfile.open(kafka) as archive:
            archive.extractall(work, filter="data")
        (manifest,) = json.loads((work / "manifest.json").read_text())
        configuration = json.loads((work / manifest["Config"]).read_text())["config"]
        configuration["Env"] = [*configuration["Env"], "CRUISE_CONTROL_HOME=/opt/cruise-control"]
        layers = [*(work / layer for layer in manifest["Layers"]), added]
        write_image(folder / "cruise-control.tar", CRUISE_CONTROL_IMAGE, layers, **configuration)
        shutil.rmtree(work)

    pom = SOURCES / "cruise_control" / "pom.xml"
    key = digest(kafka.parent.name, pom, f"{_CRUISE_CONTROL_CODE} 1")
    title = f"Cruise Control {CRUISE_CONTROL_VERSION}"
    return ensure("cruise-control", CRUISE_CONTROL_VERSION, key, title, build) / "cruise-control.tar"


def _cruise_control_layer(strimzi: Path, work: Path, log: Path) -> Path:
    """What the image of Strimzi's Dockerfile has in /opt/cruise-control, and the reporter of metrics for brokers."""
    home, classes, code = work / "cruise-control", work / "classes", work / "code"
    copy_jars("Cruise Control's libraries", SOURCES / "cruise_control" / "pom.xml", home / "libs", log)
    _fetch_cruise_control(code, log)
    compile_all: list[str | Path] = ["nice", "-n", "5", "javac", "-nowarn", "-proc:none", "-encoding", "UTF-8"]
    compile_all += ["--release", "17", "-cp", f"{home}/libs/*", "-d", classes, *sorted(code.rglob("*.java"))]
    run_logged(f"Cruise Control {CRUISE_CONTROL_VERSION} from source", compile_all, log)
    reporter = work / "cruise-control-metrics-reporter.jar"
    for jar, package in (
        (home / "libs" / "cruise-control.jar", ""),
        (reporter, "com/linkedin/kafka/cruisecontrol/metricsreporter"),
    ):
        with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as packed:
            for file in sorted((classes / package).rglob("*.class")):
                packed.write(file, file.relative_to(classes).as_posix())
    for script in (strimzi / "docker-images/kafka-based/kafka/cruise-control-scripts").iterdir():
        shutil.copy2(script, home)
        (home / script.name).chmod(0o755)
    return _layer(
        work / "cruise-control.tar", [(home, "opt/cruise-control"), (reporter, f"opt/kafka/libs/{reporter.name}")]
    )


def _fetch_cruise_control(tree: Path, log: Path) -> None:
    """The sources of the release alone: its web pages are not built."""
    source = os.environ.get(CRUISE_CONTROL_SOURCE_VARIABLE) or _CRUISE_CONTROL_PUBLIC_SOURCE
    git = ["git", "-c", "safe.directory=*"]
    repository, archive = Path(source).expanduser().resolve(), tree.with_suffix(".tar")
    tree.mkdir()
    try:
        if not repository.is_dir():
            repository = tree.with_suffix(".git")
            clone = ["clone", "--quiet", "--bare", "--depth", "1", "--branch", CRUISE_CONTROL_VERSION]
            run_logged("Cruise Control's source", [*git, *clone, source, repository], log)
        of = ("archive", "-o", archive, CRUISE_CONTROL_VERSION, *_CRUISE_CONTROL_CODE)
        run_logged("Cruise Control's source", [*git, "-C", repository, *of], log)
    except StepFailedError as fault:
        raise StepFailedError(
            f"{fault}\n{source} has no Cruise Control {CRUISE_CONTROL_VERSION}, or cannot be reached: set "
            f"{CRUISE_CONTROL_SOURCE_VARIABLE} to a git address or a clone"
        ) from fault
    with tarfile.open(archive) as content:
        content.extractall(tree, filter="data")


def _jdk() -> Path:
    found = java_development_kit(_JDK_FIRST)
    if found is None:
        raise StepFailedError(
            f"Strimzi {VERSION} is built by a JDK of {_JDK_FIRST} or later and none is in JAVA_HOME, on PATH or in "
            "/usr/lib/jvm: install one (Debian 13: openjdk-21-jdk-headless)"
        )
    return found


def _fetch_source(tree: Path, log: Path) -> None:
    """The tree of the release, from a git address, a git directory (bare or not) or an unpacked folder."""
    source = os.environ.get(SOURCE_VARIABLE) or _PUBLIC_SOURCE
    place = Path(source).expanduser()
    way_out = f"set {SOURCE_VARIABLE} to a git address, a clone or an unpacked release of Strimzi {VERSION}"
    if place.is_dir() and (place / "release.version").is_file() and not (place / ".git").exists():
        if (found := (place / "release.version").read_text().strip()) != VERSION:
            raise StepFailedError(f"{place} holds Strimzi {found}, not {VERSION}: {way_out}")
        shutil.copytree(place, tree, symlinks=True)
        return
    address = place.resolve().as_uri() if place.is_dir() else source
    try:
        clone = ["git", "-c", "advice.detachedHead=false", "-c", "safe.directory=*", "clone", "--quiet"]
        run_logged("Strimzi's source", [*clone, "--depth", "1", "--branch", VERSION, address, tree], log)
    except StepFailedError as fault:
        raise StepFailedError(f"{fault}\n{source} has no Strimzi {VERSION}, or cannot be reached: {way_out}") from fault


def _slim_poms(tree: Path) -> None:
    """Leave out what only Strimzi's tests need and what Maven Central has not; let a newer JDK process annotations
    and warn."""
    ElementTree.register_namespace("", _POM)
    for path in tree.rglob("pom.xml"):
        project = ElementTree.parse(path)
        root = project.getroot()
        if root is None:
            continue
        for repositories in root.findall(f"{{{_POM}}}repositories"):
            root.remove(repositories)
        for group in root.findall(f"{{{_POM}}}dependencies"):
            for dependency in list(group):
                if _dispensable(dependency):
                    group.remove(dependency)
        for arguments in root.iter(f"{{{_POM}}}compilerArgs"):
            for argument in list(arguments):
                if argument.text == "-Werror":
                    arguments.remove(argument)
            ElementTree.SubElement(arguments, f"{{{_POM}}}arg").text = "-proc:full"
        project.write(path, encoding="UTF-8", xml_declaration=True)


def _dispensable(dependency: ElementTree.Element) -> bool:
    """Whether only tests need it, or only clusters that are not made here."""
    text = {child.tag.rpartition("}")[2]: child.text or "" for child in dependency}
    name = text.get("artifactId", "")
    for_tests = text.get("scope") == "test" or text.get("type") == "test-jar" or name == "test"
    return for_tests or name.startswith(_NOT_USED) or any(part in name for part in _ONLY_TESTS)


def _write_config_model(tree: Path, jars: Path, java: Path, log: Path) -> None:
    """Which settings Kafka has, as the cluster operator wants to read it: made by Strimzi's own generator."""
    sources = [
        path
        for module in ("config-model", "config-model-generator")
        for path in (tree / module / "src" / "main").rglob("*.java")
    ]
    classes = tree / "config-model-classes"
    run_logged("config model", [java / "bin/javac", "-proc:none", "-cp", f"{jars}/*", "-d", classes, *sources], log)
    model = tree / "cluster-operator/src/main/resources" / f"kafka-{KAFKA_VERSION}-config-model.json"
    main = "io.strimzi.build.kafka.metadata.KafkaConfigModelGenerator"
    run_logged("config model", [java / "bin/java", "-cp", f"{classes}:{jars}/*", main, model], log)


def _package(tree: Path, java: Path, log: Path) -> None:
    versions = [f"-D{name}.version={version}" for name, version in _VERSIONS.items()]
    command = ["mvn", "-B", "-ntp", *_SKIPPED, *versions, "-pl", ",".join(_MODULES), "-am", "package"]
    environment = {"JAVA_HOME": str(java), "PATH": f"{java}/bin{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    run_logged(f"Strimzi {VERSION} from source", ["nice", "-n", "5", *command], log, cwd=tree, environment=environment)


def _java_runtime(work: Path, java: Path, log: Path) -> Path:
    runtime = work / "java"
    options = ["--strip-debug", "--no-man-pages", "--no-header-files", "--add-modules", ",".join(_JAVA_MODULES)]
    run_logged("Java of the images", [java / "bin/jlink", *options, "--output", runtime], log)
    return _layer(work / "java.tar", [(runtime, "opt/java")])


def _operator_layer(tree: Path, work: Path) -> Path:
    """What the image of Strimzi's Dockerfile has in /opt/strimzi."""
    home = work / "strimzi"
    for module in _MODULES:
        if not module.endswith("-agent"):
            _unzip(_distribution(tree, module), home)
    shutil.copytree(tree / "docker-images/operator/scripts", home / "bin", dirs_exist_ok=True)
    for script in (home / "bin").iterdir():
        script.chmod(0o755)
    return _layer(work / "operator.tar", [(home, "opt/strimzi")])


def _kafka_layer(tree: Path, work: Path, jars: Path, log: Path) -> Path:
    """What the image of Strimzi's Dockerfile has in /opt/kafka, but for Cruise Control and exporters."""
    home = work / "kafka"
    shutil.copytree(tree / "docker-images/kafka-based/kafka/scripts", home)
    shutil.copytree(SOURCES / "strimzi" / "bin", home / "bin")
    for script in (*home.glob("*.sh"), *(home / "bin").iterdir()):
        script.chmod(0o755)
    (home / "plugins").mkdir()
    libraries = home / "libs"
    shutil.copytree(jars, libraries)
    third = work / "third-party"
    pom = next((tree / "docker-images/artifacts/kafka-thirdparty-libs").glob(f"{KAFKA_VERSION[:3]}*/pom.xml"))
    copy_jars("Kafka's plugins", pom, third, log)
    for jar in third.glob("*.jar"):
        if not (libraries / jar.name).exists():
            shutil.copy2(jar, libraries)
    for agent in ("kafka-agent", "tracing-agent"):
        shutil.copy2(tree / agent / "target" / f"{agent}-{VERSION}.jar", libraries)
    return _layer(work / "kafka.tar", [(home, "opt/kafka")])


def _distribution(tree: Path, module: str) -> Path:
    return tree / "docker-images/artifacts/binaries" / f"{module}-{VERSION}-dist.zip"


def _unzip(archive: Path, target: Path) -> None:
    with zipfile.ZipFile(archive) as content:
        content.extractall(target)


def _layer(archive: Path, trees: Sequence[tuple[Path, str]]) -> Path:
    """The trees as one layer, with no owner but root and no time, so that the same files are the same layer."""

    def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = 0
        return entry

    with tarfile.open(archive, "w") as tar:
        for tree, name in trees:
            tar.add(tree, name, filter=anonymous)
    return archive
