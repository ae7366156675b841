"""What a page shows: a heading, facts, and sections of blocks. Every text in here is plain text, from anybody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

__all__ = [
    "Bars", "Block", "Cell", "Column", "Event", "Fact", "Facts", "Page", "PartitionList", "PartitionRow", "Row",
    "Section", "Spread", "Steps", "Table", "Text", "Timeline", "Tone",
]  # fmt: skip


class Tone(StrEnum):
    """How a text is meant. A page never says anything by colour alone."""

    PLAIN = ""
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Spread:
    """Three figures of one topic: the most on one broker before and after, and what some broker has at least. `top`:
    the largest of its column."""

    before: int
    after: int
    bound: int
    top: int


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table that is more than a text. `href`: relative, and chosen by the program."""

    text: str
    tone: Tone = Tone.PLAIN
    href: str = ""


Row: TypeAlias = Sequence["str | Cell | Spread"]


@dataclass(frozen=True, slots=True)
class Column:
    """`numeric`: its cells are figures, set to the right. `code`: they are names of a machine. `prose`: sentences."""

    name: str
    numeric: bool = False
    code: bool = False
    prose: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and its value; `code`: the value is a name of a machine, such as a digest."""

    name: str
    value: str
    code: bool = False
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Facts:
    rows: Sequence[Fact]


@dataclass(frozen=True, slots=True)
class Text:
    """Paragraphs, or with `verbatim` lines that stand as they are."""

    lines: Sequence[str]
    tone: Tone = Tone.PLAIN
    verbatim: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """`folded`: shown once somebody opens it; `title` says what is in there. `note`: what was left out."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    note: str = ""
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Bars:
    """A pair of bars for each label. `bound`: of the highest bar after; None: no one line stands for all. `what` is
    counted, by `each`."""

    title: str
    what: str
    each: str
    labels: Sequence[str]
    before: Sequence[int]
    after: Sequence[int]
    bound: int | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """Pieces one after another, each from where the last one ended: `width` and `height` of each, and what it is."""

    title: str
    what: str
    width: Sequence[float]
    height: Sequence[int]
    end: str


@dataclass(frozen=True, slots=True)
class Event:
    """`at`: a moment as text; `after`: since the run began. `details`: one line each."""

    at: str
    after: str
    who: str
    what: str
    details: Sequence[str] = ()
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Timeline:
    events: Sequence[Event]
    note: str = ""


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One changed partition, as its cells: topic, partition, replicas before and after, who is to lead, wave, size."""

    topic: str
    partition: str
    before: str
    after: str
    leader: str
    wave: str
    size: str = ""


@dataclass(frozen=True, slots=True)
class PartitionList:
    """Changed partitions that can be searched. `first`: as many as are shown without a script. `packed`: `listed` of
    them, as `partition_list` packs them. `rest`: where those are that were left out."""

    total: int
    listed: int
    first: Sequence[PartitionRow]
    packed: str
    sizes: bool = False
    rest: str = ""


Block: TypeAlias = Text | Facts | Table | Bars | Steps | Timeline | PartitionList


@dataclass(frozen=True, slots=True)
class Section:
    """`id`: a word, for links within the page."""

    id: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Page:
    """`kind`: what it is a page of. `state`: how it stands, in a word or two. `lead`: what it comes to. `home`: the
    relative address of the page that leads here. `wide`: its tables have many columns."""

    kind: str
    title: str
    lead: Sequence[str] = ()
    state: str = ""
    tone: Tone = Tone.PLAIN
    facts: Sequence[Fact] = ()
    sections: Sequence[Section] = ()
    foot: Sequence[str] = ()
    home: str = ""
    wide: bool = False
