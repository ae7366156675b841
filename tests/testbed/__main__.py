"""The testbed's command line: `python3 -m tests.testbed VERB`. Needs nothing but the standard library."""

from __future__ import annotations

import argparse
import os
import shutil
import sys

from tests.testbed import build, cluster, preflight
from tests.testbed.places import cache_root
from tests.testbed.steps import StepFailedError, say

_AS_ROOT = ("up", "down", "enter", "status", "operator-image", "clean-cache")
_KEPT_VARIABLES = "HOME,PATH,XDG_CACHE_HOME,XDG_STATE_HOME,KUBECONFIG,KEEP,MODE"


def _become_root() -> None:
    """Namespaces and containers need root: start again through sudo, with the caller's places."""
    if os.geteuid() == 0 or cluster.external_kubeconfig() is not None:
        return
    if shutil.which("sudo") is None:
        raise StepFailedError("the testbed needs root or sudo; or set KUBECONFIG to a cluster of your own")
    again = ["sudo", f"--preserve-env={_KEPT_VARIABLES}", sys.executable, "-m", "tests.testbed", *sys.argv[1:]]
    os.execvp("sudo", again)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tests.testbed", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("preflight", help="say all that is missing on this machine")
    verbs.add_parser("packages", help="install the Debian packages that are missing")
    verbs.add_parser("build", help="build everything into the cache without starting it")
    verbs.add_parser("up", help="start the testbed, or do nothing if it is up")
    verbs.add_parser("down", help="end the testbed and remove every trace but the cache")
    verbs.add_parser("status", help="say what runs")
    verbs.add_parser("operator-image", help="build the operator's image and print its name and archive")
    verbs.add_parser("clean-cache", help="remove the cache of built things")
    entered = verbs.add_parser("enter", help="run a command in the testbed's network")
    entered.add_argument("command", nargs=argparse.REMAINDER)
    logs = verbs.add_parser("logs", help="print the end of the programs' logs")
    logs.add_argument("names", nargs="*")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> int:
    if options.verb in _AS_ROOT:
        _become_root()
    match options.verb:
        case "preflight":
            return 0 if preflight.preflight() else 1
        case "packages":
            preflight.install_packages()
        case "build":
            build.programs()
            build.kafka("kraft")
            build.kafka("zookeeper")
        case "up":
            if cluster.external_kubeconfig() is None:
                missing = preflight.missing_toolchains() + preflight.missing_rights() + preflight.missing_packages()
                if missing:
                    preflight.report(missing)
                    return 1
            cluster.up()
        case "down":
            cluster.down()
        case "status":
            return cluster.status()
        case "enter":
            return cluster.enter(options.command or [os.environ.get("SHELL", "/bin/sh")])
        case "logs":
            return cluster.logs(options.names)
        case "operator-image":
            name, archive = build.operator_image()
            print(f"{name} {archive}")
        case "clean-cache":
            shutil.rmtree(cache_root(), ignore_errors=True)
    return 0


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
