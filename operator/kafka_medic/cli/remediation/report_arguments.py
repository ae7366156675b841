"""`kafka-medic report`: one page about a run, or about a plan in a folder. Nothing here takes long to load."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kafka_medic.cli.exits import UnusableInputError

_EXAMPLES = """\
examples:
  kubectl kafka-medic report RUN -n kafka                        # Markdown, for a ticket
  kubectl kafka-medic report RUN -n kafka --output run.html      # a page, for an approval or a review
  kafka-medic report --plan plan/ --output plan.html

The page is one file. It loads nothing, and a browser without a network shows all of it.
"""


def add_parser(subparsers: Any) -> None:
    """`report`, wherever it stands."""
    parser = subparsers.add_parser(
        "report",
        help="a run or a plan as a page or as Markdown",
        description="Show a run at any time, or a plan before it is carried out: as a page, or as Markdown.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("name", metavar="RUN", nargs="?", help="the Remediation's name")
    which.add_argument("--plan", type=Path, metavar="DIR", help="instead: the folder that kafka-medic plan wrote")
    parser.add_argument(
        "--output", dest="file", type=Path, metavar="FILE",
        help="where to write the page, - for standard output (default: a run as Markdown, a plan as DIR/report.html)",
    )  # fmt: skip
    parser.add_argument("-n", "--namespace", help="default: the context's")
    parser.add_argument("--context", help="a context of the kubeconfig; default: the current one")
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: KUBECONFIG, else ~/.kube/config")
    parser.set_defaults(
        run=_run, remediation="report", all_namespaces=False, watch=False, yes=False, reason="", digest=None,
        cluster=None, output="table",
    )  # fmt: skip


def _run(args: argparse.Namespace) -> int:
    if args.file is not None and args.file.is_dir():
        raise UnusableInputError(str(args.file), "is a folder", "name a file, such as report.html")
    # Imported here: a plan needs Arrow, a run needs the Kubernetes client, and neither needs the other's.
    if args.plan is not None:
        if find_spec("pyarrow") is None:
            raise UnusableInputError("--plan", "is not part of the one-file plugin", "pip install kafka-medic")
        from kafka_medic.cli.plan_report import report_of_plan  # noqa: PLC0415

        return report_of_plan(args.plan, args.file)
    from kafka_medic.cli.remediation.command import run  # noqa: PLC0415

    return run(args)
