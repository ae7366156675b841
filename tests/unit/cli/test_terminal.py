"""What a cluster chose to call things reaches a terminal as text: whichever command writes it, in whatever form."""

from __future__ import annotations

import json

import pytest
import yaml

from kafka_medic.cli import output

HOSTILE = "a\x1b[2J\x1b]0;evil\x07\x9b31m\r\u202e\u2066\u200f\u2028\x00\ufeffb"
OBEYED = set("\x1b\x07\x9b\r\u202e\u2066\u200f\u2028\x00\ufeff")


def test_plain_text(capsys):
    output.put(f"{HOSTILE}\tc\n")
    output.note(HOSTILE)
    output.put_stderr(HOSTILE)
    told = capsys.readouterr()
    assert not OBEYED & set(told.out + told.err)
    assert told.out.endswith("b\tc\n")


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_document_says_the_same_and_is_not_obeyed(capsys, form):
    output.write({HOSTILE: [HOSTILE, "grüße"]}, form)
    told = capsys.readouterr().out
    assert not OBEYED & set(told)
    read = json.loads(told) if form == "json" else yaml.safe_load(told)
    assert read == {HOSTILE: [HOSTILE, "grüße"]}


def test_our_own_colours_are_kept_and_no_other_sequence():
    assert output.disarmed("\033[31mred\033[0m") == "\033[31mred\033[0m"
    assert output.disarmed("\033[8mhidden\033[0m") == "\\x1b[8mhidden\033[0m"
    assert output.disarmed("half a pair: \ud800") == "half a pair: \\ud800"


def test_ordinary_text_of_any_script_is_left_alone(capsys):
    output.write({"name": "заказы 注文 grüße"}, "yaml")
    assert capsys.readouterr().out == "name: заказы 注文 grüße\n"
