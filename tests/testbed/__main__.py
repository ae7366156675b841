"""The testbed's command line: `python3 -m tests.testbed VERB`. Needs nothing but the standard library."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Callable

from tests.testbed import build, cluster, environment, preflight
from tests.testbed.class_archives import class_archives
from tests.testbed.operator_image import operator_image, spark_image
from tests.testbed.places import cache_root
from tests.testbed.programs import programs
from tests.testbed.steps import StepFailedError, say
from tests.testbed.strimzi_images import cruise_control_image, strimzi_images

_IMAGES = ("operator-image", "spark-image", "strimzi-images")
_AS_ROOT = ("up", "down", "enter", "run", "build", "status", *_IMAGES, "clean-cache")
_KEPT_VARIABLES = (
    "HOME,JAVA_HOME,XDG_CACHE_HOME,XDG_STATE_HOME,KUBECONFIG,KEEP,MODE,STRIMZI_SOURCE,"
    # How this machine reaches what is fetched: a proxy, its certificates, mirrors.
    "HTTP_PROXY,HTTPS_PROXY,NO_PROXY,http_proxy,https_proxy,no_proxy,SSL_CERT_FILE,SSL_CERT_DIR,"
    "GOPROXY,GOSUMDB,GOFLAGS,MAVEN_OPTS,PIP_CERT,PIP_INDEX_URL,UV_INDEX_URL,UV_SYSTEM_CERTS"
)


def _become_root() -> None:
    """Namespaces and containers need root: start again through sudo, with the caller's places."""
    if os.geteuid() == 0 or cluster.external_kubeconfig() is not None:
        return
    if shutil.which("sudo") is None:
        raise StepFailedError("the testbed needs root or sudo; or set KUBECONFIG to a cluster of your own")
    # sudo has a PATH of its own, on which Go and Maven may not be.
    again = ["sudo", f"--preserve-env={_KEPT_VARIABLES}", "env", f"PATH={preflight.search_path()}"]
    again += [sys.executable, "-m", "tests.testbed", *sys.argv[1:]]
    os.execvp("sudo", again)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tests.testbed", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("preflight", help="say all that is missing on this machine")
    verbs.add_parser("setup", help="install the Debian packages that are missing and make .venv")
    verbs.add_parser("browser", help="install the Debian package chromium, in which pages are tested")
    verbs.add_parser("venv", help="make .venv from the lock")
    verbs.add_parser("lock", help="resolve the dependencies anew into locks/")
    verbs.add_parser("build", help="build everything into the cache without starting it")
    verbs.add_parser("up", help="start the testbed, or do nothing if it is up")
    verbs.add_parser("down", help="end the testbed and remove every trace but the cache")
    verbs.add_parser("status", help="say what runs")
    verbs.add_parser("operator-image", help="build the operator's image and print its name and archive")
    verbs.add_parser("spark-image", help="the same of Spark's image")
    verbs.add_parser("strimzi-images", help="build Strimzi's images from its source and print their archives")
    verbs.add_parser("clean-cache", help="remove the cache of built things")
    entered = verbs.add_parser("enter", help="run a command in the testbed's network")
    entered.add_argument("command", nargs=argparse.REMAINDER)
    ran = verbs.add_parser("run", help="up, run a command in it, down (unless KEEP=1), whatever the command's end")
    ran.add_argument("command", nargs=argparse.REMAINDER)
    logs = verbs.add_parser("logs", help="print the end of the programs' logs")
    logs.add_argument("names", nargs="*")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> int:
    if options.verb in _AS_ROOT:
        _become_root()
    # No `match`: a Python too old for it should get as far as being told so.
    verbs: dict[str, Callable[[], int | None]] = {
        "preflight": lambda: 0 if preflight.preflight() else 1,
        "setup": _set_up,
        "browser": lambda: 0 if preflight.install_browser() else 1,
        "venv": environment.create,
        "lock": environment.lock,
        "build": _build,
        "up": _up,
        "down": cluster.down,
        "status": cluster.status,
        "enter": lambda: cluster.enter(options.command or [os.environ.get("SHELL", "/bin/sh")]),
        "run": lambda: _run_in_testbed(options.command),
        "logs": lambda: cluster.logs(options.names),
        "operator-image": lambda: print(*operator_image()),
        "spark-image": lambda: print(*spark_image()),
        "strimzi-images": lambda: print(*strimzi_images(), cruise_control_image()),
        "clean-cache": lambda: shutil.rmtree(cache_root(), ignore_errors=True),
    }
    return verbs[options.verb]() or 0


def _build() -> None:
    programs()
    build.kafka("kraft")
    build.kafka("zookeeper")
    build.kafka("exporter")
    for kind in ("s3", "hdfs", "tables"):
        build.spark_jars(kind)
    build.oldest_spark()
    build.plugin_packages()
    if (java := preflight.java_home()) is not None:
        class_archives("kraft", java)
        class_archives("zookeeper", java)
    operator_image()


def _set_up() -> int:
    own_cluster = cluster.external_kubeconfig() is None
    missing = preflight.missing_toolchains() + preflight.missing_rights() if own_cluster else []
    if missing:
        # All of it in one message: what setup would install itself is named too.
        preflight.report(missing + preflight.missing_packages())
        return 1
    if own_cluster:
        preflight.install_packages()
    environment.create()
    return 0


def _up() -> int:
    if cluster.external_kubeconfig() is None:
        missing = preflight.missing_toolchains() + preflight.missing_rights() + preflight.missing_packages()
        if missing:
            preflight.report(missing)
            return 1
    cluster.up()
    return 0


def _run_in_testbed(command: list[str]) -> int:
    # An interrupted run still takes its testbed down.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if _up():
            return 1
        if cluster.external_kubeconfig() is None:
            _build()  # now, since nothing that runs inside has a way to fetch anything
        return cluster.enter(command)
    finally:
        if os.environ.get("KEEP") == "1":
            say("KEEP=1: the testbed stays up; `make down` ends it")
        else:
            cluster.down()


def main() -> int:
    try:
        return _run(_arguments())
    except (StepFailedError, RuntimeError) as fault:
        say(str(fault))
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
