"""Text from a Kafka cluster cannot imitate lines of the operator's log."""

from __future__ import annotations

import logging
import traceback
from typing import Any

from kafka_medic.cluster.names import printable

_PACKAGE = "kafka_medic"


def one_line(*args: Any, **kwargs: Any) -> logging.LogRecord:
    """A factory of log records. The messages of this project are one line each, without control characters; so is the
    text of an exception, below its traceback."""
    record = logging.LogRecord(*args, **kwargs)
    if record.name != _PACKAGE and not record.name.startswith(f"{_PACKAGE}."):
        return record
    record.msg, record.args = printable(record.getMessage()), ()
    if record.exc_info and record.exc_info[1] is not None:
        parts = traceback.format_exception(record.exc_info[1])
        record.exc_text = "".join(map(_part, parts)).rstrip("\n")
    return record


def _part(text: str) -> str:
    """Frames and headings are lines of Python's own, anything else is an exception's text."""
    if text.startswith(("  File ", "Traceback ", "\nDuring ", "\nThe above ")):
        return text
    return f"{printable(text.removesuffix(chr(10)))}\n"
