"""The digest that a person approves: SHA-256 over one, and only one, way to write a value down.

The form is the subset of RFC 8785 (JSON Canonicalization Scheme) that needs no agreement on floats: sorted
keys, no white space, UTF-8, integers, strings, booleans, null, arrays, objects. Floats are refused rather
than rounded: two programs may print the same float differently, and a digest must not depend on who
computed it. RFC 8785 sorts keys by UTF-16 code units; keys outside the Basic Multilingual Plane, where that
differs from Python's order by code points, are refused too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TypeAlias

from .errors import Problem, ResourceError

_SAFE_INTEGER = 2**63 - 1
"""What Kafka's and Kubernetes' int64 can hold; anything past it is a mistake, not a quantity."""
_LAST_BASIC_PLANE = "\uffff"
_Path: TypeAlias = "tuple[_Path, object] | None"
"""The keys and indices on the way to a value, the last one outermost; put into words only when something is refused."""


def canonical_json(value: object) -> bytes:
    """`value` in the one form that its digest is taken over."""
    return json.dumps(
        _plain(value, None), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode("utf-8")


def sha256_digest(value: object) -> str:
    """`sha256:` and 64 hexadecimal digits, over `canonical_json(value)`."""
    return "sha256:" + hashlib.sha256(canonical_json(value)).hexdigest()


def _plain(value: object, path: _Path) -> object:
    if isinstance(value, str):
        return value if type(value) is str and value.isascii() else _text(value, path)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if abs(value) > _SAFE_INTEGER:
            raise _refused(path, "is an integer past 64 bits", "digest it as a string")
        return int(value)
    if isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101 which of Mapping's takes far longer
        return {_key(key, path): _plain(item, (path, key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, (path, index)) for index, item in enumerate(value)]
    way_out = "use an integer of a smaller unit" if isinstance(value, float) else "turn it into strings and integers"
    raise _refused(path, f"is a {type(value).__name__}, which has no canonical form", way_out)


def _text(value: str, path: _Path) -> str:
    try:
        value.isascii() or value.encode("utf-8")
    except UnicodeEncodeError:
        # `from None`: the original message quotes the text, and this one may end up in a log
        raise _refused(path, "is not valid Unicode", "digest its bytes as hexadecimal") from None
    # str(): an enum member is a str whose own type must not leak into the digest
    return str.__str__(value)


def _key(key: object, path: _Path) -> str:
    if type(key) is str and key.isascii():
        return key
    if not isinstance(key, str):
        raise _refused(path, "has a key that is not a string", "JSON has string keys only")
    if not key.isascii() and any(character > _LAST_BASIC_PLANE for character in key):
        raise _refused(path, "has a key outside the Basic Multilingual Plane", "put it into a value")
    return _text(key, path)


def _refused(path: _Path, message: str, way_out: str) -> ResourceError:
    return ResourceError("Digest", "", (Problem(_told(path), message, way_out),))


def _told(path: _Path) -> str:
    if path is None:
        return ""
    before, last = _told(path[0]), path[1]
    return f"{before}[{last}]" if isinstance(last, int) else f"{before}.{last}" if before else str(last)
