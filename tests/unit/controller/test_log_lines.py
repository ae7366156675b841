"""Text that a broker chose stays within its line of the log."""

from __future__ import annotations

import io
import logging

import pytest

from kafka_medic.controller.log_lines import one_line

HOSTILE = "no\n2026-01-01 ERROR kafka_medic: approved by alice\x1b[2J\u202e\r"


@pytest.fixture
def log(request):
    out, usual = io.StringIO(), logging.getLogRecordFactory()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger = logging.getLogger("kafka_medic.some.where")
    logger.addHandler(handler)
    logging.setLogRecordFactory(one_line)
    yield logger, out
    logging.setLogRecordFactory(usual)
    logger.removeHandler(handler)


def test_a_message_is_one_line(log):
    logger, out = log
    logger.warning("%s failed: %s", "run", HOSTILE)
    assert out.getvalue().count("\n") == 1
    assert out.getvalue().rstrip("\n").isprintable()
    assert r"no\n2026" in out.getvalue()


def test_the_text_of_an_exception_is_one_line_below_its_traceback(log):
    logger, out = log
    try:
        try:
            raise ValueError(HOSTILE)
        except ValueError as problem:
            raise RuntimeError(HOSTILE) from problem
    except RuntimeError:
        logger.exception("the reconcile failed")
    told = out.getvalue()
    assert "test_log_lines.py" in told, "frames are kept"
    assert not any(line.startswith("2026-01-01") for line in told.split("\n"))
    assert not set("\x1b\u202e\r") & set(told)


def test_what_others_log_is_theirs():
    record = one_line("kopf.objects", logging.INFO, "f", 1, "%s", ("a\nb",), None)
    assert record.getMessage() == "a\nb"
