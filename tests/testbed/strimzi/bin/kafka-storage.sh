#!/bin/sh
# Formats only: neither a heap of a broker's size nor its agents are needed.
KAFKA_HEAP_OPTS=-Xmx128m KAFKA_OPTS= exec "$(dirname "$0")/kafka-run-class.sh" kafka.tools.StorageTool "$@"
