"""The options of `kafka-medic diagnose`. Nothing here needs a library that takes long to load."""

from __future__ import annotations

import argparse
from typing import Any

from kafka_medic.cli import output

_EXAMPLES = """\
examples:
  kafka-medic snapshot --bootstrap-servers kafka:9092 -o json > now.json
  kafka-medic diagnose --snapshot now.json
  kafka-medic diagnose --snapshot now.json --previous before.json -o json
  kafka-medic diagnose --snapshot - --cluster kafkacluster.yaml < now.json

A finding is Pending until it has lasted as long as its kind needs; with --previous, one that both snapshots show has
lasted since the earlier one, and logs that became shorter (LogEndRegressed) and groups that stand still (ClientStalled)
are told from the difference. It ends with 0
whatever is found.
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "diagnose",
        help="diagnose a snapshot",
        description="Diagnose a snapshot: findings, their evidence, and the playbook that treats each.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--snapshot", required=True, metavar="FILE", help="a saved snapshot; - is standard input")
    parser.add_argument("--previous", metavar="FILE", help="an earlier snapshot of the same cluster")
    parser.add_argument("--cluster", metavar="FILE", help="a KafkaCluster with your expectations (default: factor 3)")
    parser.add_argument("-o", "--output", choices=output.FORMATS, default="table", help="default: table")
