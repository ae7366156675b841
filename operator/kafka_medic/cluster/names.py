"""Names and other texts that somebody else chose, fit to be shown.

Kafka allows any character in a group's name, and what pretends to be Kafka may answer anything at all. A terminal
obeys control characters, and text can be made to run backwards.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with everything that is not printable escaped: control characters, marks that turn the direction of
    writing, halves of surrogate pairs."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shown(text: str, limit: int = 60) -> str:
    """The same, and short."""
    return f"{printable(text[:limit])}... ({len(text)} characters)" if len(text) > limit else printable(text)
