"""From a Page to HTML. Everything is escaped, and nothing is asked of another server."""

from __future__ import annotations

import base64
import functools
import hashlib
from importlib import resources

import jinja2
from markupsafe import Markup

from kafka_medic.cluster.names import printable
from kafka_medic.report import charts
from kafka_medic.report.model import Page, PartitionList

__all__ = ["render"]


def render(page: Page) -> str:
    """The whole file. A browser runs no script and loads nothing but what is in here (Content-Security-Policy)."""
    searched = any(isinstance(block, PartitionList) for section in page.sections for block in section.blocks)
    style, script = _text("page.css"), _text("partitions.js") if searched else ""
    return _environment().get_template("page.html").render(
        page=page,
        style=Markup(style),  # noqa: S704  # nosec B704 - our own files
        script=Markup(script),  # noqa: S704  # nosec B704
        policy=_policy(style, script),
    ) + "\n"  # fmt: skip


def _policy(style: str, script: str) -> str:
    """Only this style and this script, by their hashes: even a mistake in escaping would run nothing."""
    allowed = f"'sha256-{_sha256(script)}'" if script else "'none'"
    return (
        f"default-src 'none'; style-src 'sha256-{_sha256(style)}'; script-src {allowed}; base-uri 'none'; "
        "form-action 'none'"
    )


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@functools.cache
def _text(name: str) -> str:
    return resources.files("kafka_medic.report").joinpath("templates", name).read_text("utf-8").strip()


@functools.cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(_text),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["kind"] = lambda block: type(block).__name__
    made.globals.update(bars=charts.bars, steps=charts.steps, spread=charts.spread)
    return made


def _shown(value: object) -> object:
    """What is no markup of ours is made printable, then escaped by Jinja."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
