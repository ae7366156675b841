"""The options that say which cluster, and how to connect to it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_options(parser: argparse.ArgumentParser) -> Any:
    """Answers the group of which one is required."""
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--bootstrap-servers", metavar="HOST:PORT,...", help="brokers to start from")
    where.add_argument("--cluster", metavar="FILE", help="a KafkaCluster with the addresses and the security settings")
    parser.add_argument("--zookeeper", metavar="HOST:PORT,...", help="the ensemble, for a cluster that has one")
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="security settings in the properties format of Kafka's own tools, certificates as PEM",
    )
    parser.add_argument("--name", default="cluster", help="what to call the cluster (default: cluster)")
    parser.add_argument(
        "--secrets-dir", type=Path, metavar="DIR", help="a Secret NAME with KEY is the file DIR/NAME/KEY"
    )
    return where
