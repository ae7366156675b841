"""MkDocs hooks: links to files outside of docs/, and a site that loads nothing from other hosts.

On a Git host a page links to ../examples/x.yaml. The site gets a copy of that file, and the link leads to the copy. A
link to a file that does not exist fails the build.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File

LOG = logging.getLogger("mkdocs.hooks.site")
ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"(?<=\]\()((?:\.\./)+[^)#\s]+)(#[^)\s]*)?(?=\))")
_LOADED = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=["']?(https?://[^"'\s>]+)[^>]*>""", re.I)


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    here = PurePosixPath(page.file.src_uri).parent

    def led(match: re.Match[str]) -> str:
        target = (ROOT / "docs" / here / match[1]).resolve()
        if target.is_relative_to(ROOT / "docs") or not target.is_relative_to(ROOT):
            return match[0]
        if target.is_dir():
            LOG.warning("%s: %s is a folder; link to a file in it", page.file.src_uri, match[1])
            return match[0]
        if not target.is_file():
            LOG.warning("%s: %s does not exist", page.file.src_uri, match[1])
            return match[0]
        copy = f"files/{target.relative_to(ROOT)}" + (".txt" if target.suffix == ".md" else "")
        if copy not in files.src_uris:
            files.append(File.generated(config, copy, content=target.read_bytes()))
        return "../" * len(here.parts) + copy

    return _LINK.sub(led, markdown)


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    for address in _LOADED.findall(output):
        LOG.warning("%s loads %s: the site has to work without a network", page.file.src_uri, address)
    return output
