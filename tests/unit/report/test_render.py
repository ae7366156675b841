"""A page is one file that runs and loads nothing of others, whatever it shows."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kafka_medic.report import model
from kafka_medic.report.model import (
    Bars,
    Cell,
    Column,
    Event,
    Fact,
    Facts,
    Page,
    Section,
    Spread,
    Steps,
    Table,
    Text,
    Timeline,
)
from kafka_medic.report.partition_list import listed
from kafka_medic.report.render import render

HOSTILE = "<script>alert(1)</script>\"'&{{ 7 * 7 }}\u202e\x1b[31m"


def page_of(text: str) -> Page:
    """Every kind of block, with this text wherever a text may stand."""
    bars = Bars(text, text, text, [text] * 3, [1, 2, 3], [3, 2, 1], 3)
    blocks = [
        Text([text]),
        Text([text], verbatim=True),
        Facts([Fact(text, text), Fact(text, text, code=True)]),
        Table(text, [Column(text), Column(text, code=True)], [(text, Cell(text)), (text, Spread(1, 2, 3, 3))], text),
        Table(text, [Column(text)], [(Cell(text, href="clusters/a.html"),)], folded=True),
        bars,
        replace(bars, labels=[text] * 40, before=[1] * 40, after=[2] * 40),
        replace(bars, labels=[text] * 300, before=[1] * 300, after=[2] * 300, bound=None),
        Steps(text, text, [1.0, 2.0], [3, 4], text),
        Timeline([Event(text, text, text, text, [text])], text),
        listed([(text, 0, [1], [1, 2], 1, 0, 5)] * 30, text),
    ]
    sections = [Section("one", text, blocks), Section("two", text, []), Section("three", text, [])]
    return Page(text, text, [text], text, facts=[Fact(text, text)], sections=sections, foot=[text], home="index.html")


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.opened: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.opened.append((tag, dict(attrs)))


def test_every_kind_of_block_is_shown():
    shown = {type(block).__name__ for section in page_of("x").sections for block in section.blocks}
    assert shown == {kind.__name__ for kind in model.Block.__args__}
    with pytest.raises(Exception, match="no_such_block"):
        render(Page("a", "b", sections=[Section("one", "c", [Fact("Nothing", "of that")])]))


def test_hostile_text_is_shown_and_does_nothing():
    page = render(page_of(HOSTILE))
    plain = render(page_of("x"))
    assert [tag for tag, _ in Tags(page).opened] == [tag for tag, _ in Tags(plain).opened]
    assert page.count("<script>alert") == 0
    assert "{{ 7 * 7 }}" in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_no_event_handler_and_no_address_but_its_own():
    for tag, attributes in Tags(render(page_of(HOSTILE))).opened:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "style", "srcset", "data")]
        if "href" in attributes:
            assert attributes["href"] in ("#main", "#one", "#two", "#three", "index.html", "clusters/a.html"), tag


def test_the_policy_lets_this_style_and_this_script_pass_and_nothing_else():
    page = render(page_of("x"))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    policy = policy.replace("&#39;", "'")
    for tag, name in (("style", "style-src"), ("script", "script-src")):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    without = render(replace(page_of("x"), sections=[]))
    assert "<script" not in without
    assert "script-src &#39;none&#39;" in without


def test_a_page_needs_no_arrow():
    code = "import sys, kafka_medic.report.render, kafka_medic.report.partition_list\n"
    code += "print([name for name in ('pyarrow', 'numpy', 'kubernetes') if name in sys.modules])"
    path = {"PYTHONPATH": str(Path(__file__).parents[3] / "operator")}
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env=path)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_page_is_a_document_of_its_own_language_and_width():
    page = render(page_of("x"))
    assert page.startswith('<!doctype html>\n<html lang="en">')
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
