"""Pages in a real browser: they fit on a phone and on a wide screen, in light and dark, can be searched and printed,
and load nothing. Needs `.venv` and Debian's chromium."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.integration.browser import Browser, chromium
from tests.integration.pages import every_page

WIDTHS = (360, 768, 1440)
NAMES = (
    "plan-small", "plan-middle", "plan-large", "plan-hostile", "run-waits", "run-copies", "run-ended", "fleet",
    "fleet-cluster", "fleet-plans", "fleet-plan",
)  # fmt: skip
LARGEST = 4_000_000
"""Bytes of a page."""

BEYOND = """
[...document.body.querySelectorAll("*")].filter((of) => {
  const box = of.getBoundingClientRect();
  const hidden = of.closest(".skip, caption, thead, [hidden], .wide table") && !of.matches(".wide");
  return !hidden && box.width > 1 && (box.right > WIDTH + 1 || box.left < -1);
}).map((of) => of.outerHTML.slice(0, 120))
"""
CUT_OFF = """
[...document.querySelectorAll(".wide")].filter((of) => of.scrollWidth > of.clientWidth + 1).map((of) =>
  of.innerText.slice(0, 120))
"""
CONTRAST = """
(() => {
  const parts = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (of) => {
    for (; of; of = of.parentElement) {
      const colour = parts(getComputedStyle(of).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
  };
  const low = new Set(), walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const of = node.parentElement;
    if (!node.data.trim() || !of.checkVisibility() || of.matches("script, style, :disabled")) continue;
    const [a, b] = [light(parts(getComputedStyle(of).color)), light(behind(of))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.add(of.className + " " + of.tagName + " " + ratio.toFixed(2));
  }
  return [...low];
})()
"""
UNLABELLED = """
[
  ...[...document.querySelectorAll("input, button, [role=img], nav, form")].filter((of) =>
    !(of.labels?.length || of.getAttribute("aria-label") || (of.tagName === "BUTTON" && of.textContent.trim()))),
  ...[...document.querySelectorAll("th")].filter((of) => !of.scope),
  ...[...document.querySelectorAll("table")].filter((of) => !of.caption),
  ...[...document.querySelectorAll("svg:not([role=img]):not([aria-hidden])")],
].map((of) => of.outerHTML.slice(0, 120))
"""
HEADINGS = "[...document.querySelectorAll('h1, h2, h3')].map((of) => Number(of.tagName[1]))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = every_page(tmp_path_factory.mktemp("pages"))
    assert set(found) == set(NAMES)
    return found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_a_page_fits_loads_nothing_complains_of_nothing_and_can_be_read(
    browser: Browser, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    browser.open(pages[name], width, dark=dark)
    assert browser.complaints == []
    assert browser.requested == [pages[name].as_uri()]
    assert browser.run("innerWidth") == width
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(BEYOND.replace("WIDTH", str(width))) == []
    assert browser.run(CUT_OFF) == []
    assert browser.run(CONTRAST) == []
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(18, 23, 30)" if dark else "rgb(255, 255, 255)")


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_headings_in_order_and_a_label_for_everything(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    browser.open(pages[name], 768)
    levels = browser.run(HEADINGS)
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert browser.run(UNLABELLED) == []
    assert browser.run("document.documentElement.lang") == "en"


def test_no_page_is_larger_than_a_few_megabytes(pages: dict[str, Path]) -> None:
    assert {name: path.stat().st_size for name, path in pages.items() if path.stat().st_size > LARGEST} == {}


def test_text_of_strangers_is_shown_and_not_obeyed(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["plan-hostile"], 1440)
    assert browser.run("document.title") == "Raise replication factor: orders-production"
    typed(browser, "topic", "<script>")
    assert "10 partitions" in browser.run("document.querySelector('.found').textContent")
    assert browser.run("document.querySelector('.partitions tbody th').textContent").startswith("<script>")


def typed(browser: Browser, field: str, text: str) -> None:
    """Into the search form, and until its answer is there."""
    browser.run(
        f"""new Promise((done) => {{
          const root = document.querySelector(".partitions"), form = root.querySelector("form");
          const watch = new MutationObserver(() => {{ watch.disconnect(); done(); }});
          watch.observe(root.querySelector("tbody"), {{ childList: true }});
          form.{field}.value = {text!r};
          form.{field}.dispatchEvent(new Event("input", {{ bubbles: true }}));
        }})"""
    )


def test_200_000_partitions_are_searched_by_topic_and_by_broker(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["plan-large"], 1440)
    found = "document.querySelector('.found').textContent"
    assert browser.run(found) == "1 to 25 of 200,000 partitions."
    began = time.monotonic()
    typed(browser, "topic", "CLICKS.4997")
    assert browser.run(found) == "1 to 25 of 40 partitions."
    assert time.monotonic() - began < 5
    rows = browser.run("[...document.querySelectorAll('.partitions tbody tr')].map((row) => row.innerText)")
    assert len(rows) == 25
    assert all("clicks.4997" in row for row in rows)
    browser.run("document.querySelector('.pages button[data-to=\"1\"]').click()")
    assert browser.run(found) == "26 to 40 of 40 partitions."
    typed(browser, "topic", "")
    typed(browser, "broker", "17")
    rows = browser.run(
        "[...document.querySelectorAll('.partitions tbody tr')].map((row) => [...row.cells].slice(2, 4).map("
        "(cell) => cell.textContent.split(', ')))"
    )
    assert all("17" in before + after for before, after in rows)
    typed(browser, "broker", "300")
    assert browser.run(found) == "No partition matches."


def test_a_page_prints_in_light_colours_without_its_controls(browser: Browser, pages: dict[str, Path]) -> None:
    for name in ("plan-middle", "run-ended"):
        browser.open(pages[name], 1440, dark=True)
        pdf = browser.pdf()
        assert pdf.startswith(b"%PDF-")
        assert 2 <= pdf.count(b"/Type /Page\n") <= 30
        browser.call("Emulation.setEmulatedMedia", media="print")
        assert browser.run("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        assert browser.run("getComputedStyle(document.querySelector('form')).display") == "none"


def test_without_a_script_the_first_partitions_are_there(browser: Browser, pages: dict[str, Path]) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(pages["plan-large"], 360, script=False)
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    text = browser.run("document.querySelector('.partitions').innerText")
    assert "The first 25 of 200,000 partitions." in text
    assert browser.run("document.querySelectorAll('.partitions tbody tr').length") == 25
