"""The options of `kafka-medic snapshot`. Nothing here needs a library that takes long to load."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from kafka_medic.cli import output
from kafka_medic.cli.connecting_arguments import add_options

PARQUET = "parquet"
_EXAMPLES = """\
examples:
  kafka-medic snapshot --bootstrap-servers kafka-0:9092,kafka-1:9092 -o json > now.json
  kafka-medic snapshot --bootstrap-servers kafka:9092 --zookeeper zk:2181/kafka -o json
  kafka-medic snapshot --bootstrap-servers kafka:9093 --command-config client.properties -o json
  kafka-medic snapshot --cluster kafkacluster.yaml --secrets-dir ./secrets -o yaml

  kafka-medic snapshot --bootstrap-servers kafka:9092 --name payments -o parquet --append history/

  kafka-medic snapshot --schema > snapshot.schema.json

What could not be read is null, and its source has the reason. Every broker reports its whole view. With --cluster,
spec.probes.consumerGroups chooses the consumer groups; the default is all. It ends with 3 if no broker answered.
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "snapshot",
        help="observe a cluster once",
        description="Observe a cluster once. Only reads; needs no Kubernetes.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    where = add_options(parser)
    where.add_argument("--schema", action="store_true", help="print the JSON Schema of -o json, and observe nothing")
    parser.add_argument(
        "-o", "--output", choices=(*output.FORMATS, PARQUET), default="table",
        help="default: table; parquet appends to a history, with --append",
    )  # fmt: skip
    parser.add_argument(
        "--append", type=Path, metavar="DIR", help="the history that -o parquet appends to, for `kafka-medic fleet`"
    )
