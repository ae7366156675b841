"""How the docs read, in figures: the length of sentences, the passive, and words that hide who does what.

    python -m tests.docs.prose [FILE...]

Prints one line for each page and one for all of them. Fails for sentences of more than 40 words, and names them.
Code, tables and headings are left out. The passive is guessed: a form of "be", then a participle. "One" before a noun
is a number.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/*.md", "docs/*/*.md")
LEFT_OUT = ("docs/design/*", "docs/reference/*")
"""Design records are letters to those who build the project. The reference is written from the code."""
LONGEST = 40
LONG = 25

_PARSER = MarkdownIt("commonmark").enable("table")
_END = re.compile(r"""(?<=[.!?])["')\]*]*\s+(?=["'(\[*]*[A-Z0-9`])|\s·\s""")
_NO_END = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|approx|No)\.$")
_WORD = re.compile(r"[^\W_][\w'./:-]*")
_BE = r"(?:is|are|was|were|be|been|being)"
_IRREGULAR = (
    "begun|bound|bought|broken|brought|built|chosen|cut|dealt|done|drawn|driven|fed|felt|forgotten|found|given|gone|"
    "grown|heard|held|hidden|kept|known|laid|led|left|lent|lost|made|meant|met|paid|put|read|run|said|seen|sent|set|"
    "shown|shut|split|spoken|spread|stopped|taken|taught|thrown|told|understood|won|written"
)
_PASSIVE = re.compile(rf"\b{_BE}\s+(?:\w+ly\s+|not\s+|never\s+|also\s+|only\s+|then\s+)?(?:\w+ed|{_IRREGULAR})\b", re.I)
_INSIDE = re.compile(r"[;:]\s")
_RELATIVE = re.compile(r"\b(?:that|which|who|whom|whose)\b", re.I)
_POINTING = re.compile(
    r"\b(?:it|ones|those|theirs|one(?=\s*(?:[.,;:)]|$)|\s+(?:of|that|which|who|is|was|has|in|with|for|on|after|to|by)\b))\b",
    re.I,
)
_YOU = re.compile(r"\b(?:you|your|yours|yourself)\b", re.I)


def prose(markdown: str) -> Iterator[str]:
    """The text of each paragraph and item, without code, tables and headings."""
    skipped = 0
    for token in _PARSER.parse(markdown):
        if token.type in ("table_open", "heading_open"):
            skipped += 1
        elif token.type in ("table_close", "heading_close"):
            skipped -= 1
        elif token.type == "inline" and not skipped:
            yield "".join(_plain(token.children or [])).strip()


def _plain(tokens: Iterable[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            yield " "
        elif token.type == "code_inline":
            # One word, with a capital letter: a sentence may begin with it.
            yield "C_" + re.sub(r"\W+", "_", token.content)
        elif token.type in ("text", "text_special"):
            yield token.content


def sentences(paragraph: str) -> Iterator[str]:
    begun = ""
    for piece in _END.split(paragraph):
        begun = f"{begun} {piece}".strip()
        if not _NO_END.search(begun):
            yield begun
            begun = ""
    if begun:
        yield begun


@dataclass(frozen=True, slots=True)
class Figures:
    """Of some sentences. Shares are of sentences, in percent; rates are for each 100 words."""

    sentences: int
    mean: float
    p90: int
    long: float
    passive: float
    joined: float
    relative: float
    pointing: float
    you: float


def figures(found: list[str]) -> Figures | None:
    lengths = sorted(len(_WORD.findall(s)) for s in found)
    words = sum(lengths)
    if not words:
        return None

    def share(pattern: re.Pattern[str]) -> float:
        return 100 * sum(bool(pattern.search(s)) for s in found) / len(found)

    def rate(pattern: re.Pattern[str]) -> float:
        return 100 * sum(len(pattern.findall(s)) for s in found) / words

    return Figures(
        sentences=len(found),
        mean=words / len(found),
        p90=lengths[min(len(lengths) - 1, int(0.9 * len(lengths)))],
        long=100 * sum(n > LONG for n in lengths) / len(found),
        passive=share(_PASSIVE),
        joined=share(_INSIDE),
        relative=rate(_RELATIVE),
        pointing=rate(_POINTING),
        you=rate(_YOU),
    )


def page_sentences(page: Path) -> list[str]:
    return [s for paragraph in prose(page.read_text()) for s in sentences(paragraph) if _WORD.search(s)]


def pages() -> list[Path]:
    left_out = {p for pattern in LEFT_OUT for p in ROOT.glob(pattern)}
    return [p for pattern in PAGES for p in sorted(ROOT.glob(pattern)) if p not in left_out]


_HEAD = "sentences  mean  p90  >25 %  passive %  ; : %  that/100  it/100  you/100"


def _row(name: str, f: Figures) -> str:
    return (
        f"{name:44} {f.sentences:9} {f.mean:5.1f} {f.p90:4} {f.long:6.0f} {f.passive:10.0f} {f.joined:6.0f} "
        f"{f.relative:9.1f} {f.pointing:7.1f} {f.you:8.1f}"
    )


def main(names: list[str]) -> int:
    everything: list[str] = []
    too_long: list[str] = []
    print(f"{'':44} {_HEAD}")
    for page in [Path(n).resolve() for n in names] or pages():
        found = page_sentences(page)
        name = str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else str(page)
        if (of_page := figures(found)) is not None:
            print(_row(name, of_page))
        everything += found
        too_long += [f"{name}: {n} words: {s}" for s in found if (n := len(_WORD.findall(s))) > LONGEST]
    if (total := figures(everything)) is not None:
        print(_row("all", total))
    print(f"{'goal':44} {'':9} {14:5} {22:4} {5:6} {25:10} {10:6} {1.5:9} {1.5:7} {'>= 1':>8}")
    for line in too_long:
        print(line, file=sys.stderr)
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
