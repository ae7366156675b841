"""Whatever stands in a file of offsets: it is read as it was meant, or refused as a whole; never half of it."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_medic.cli.exits import UnusableInputError
from kafka_medic.cli.offsets.documents import KIND, read
from kafka_medic.playbook.offsets.offset_step import partition_of, saved
from kafka_medic.resources.vocabulary import API_VERSION
from tests.thorough import THOROUGH

NUMBERS = st.integers(-(2**70), 2**70)
ROW = st.fixed_dictionaries(
    {"group": st.sampled_from(["a", "b"]), "topic": st.just("orders"), "partition": st.integers(0, 3)},
    optional={
        "offset": st.integers(0, 2**63 - 1) | NUMBERS,
        "leaderEpoch": st.none() | st.integers(0, 9) | NUMBERS,
        "metadata": st.sampled_from([None, "", "a note", "\0\x1b[2J"]),
        "other": st.none(),
    },
)


def of(data: bytes) -> dict[str, object] | None:
    """What is read, as rows of a backup; None: it was refused."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "offsets")
        file.write_bytes(data)
        try:
            found = read(str(file), None)
        except UnusableInputError:
            return None
    return {f"{c.group} {partition_of(c)}": saved(c) for c in found.rows}


@settings(max_examples=60 if THOROUGH else 15)
@given(rows=st.lists(ROW, max_size=4))
def test_all_rows_of_a_document_or_none(rows):
    told = of(json.dumps({"kind": KIND, "apiVersion": API_VERSION, "offsets": rows}).encode())
    places = [f"{r['group']} {r['topic']}-{r['partition']}" for r in rows]
    good = len(set(places)) == len(places) > 0 and all(
        0 <= r.get("offset", -1) < 2**63
        and "other" not in r
        and (r.get("leaderEpoch") is None or 0 <= r["leaderEpoch"] < 2**31)
        for r in rows
    )
    wanted = {
        place: (r.get("offset"), r.get("leaderEpoch"), r.get("metadata") or "")
        for place, r in zip(places, rows, strict=True)
    }
    assert told == (wanted if good else None)


@settings(max_examples=60 if THOROUGH else 15)
@given(
    data=st.binary(max_size=20) | st.lists(st.text(',"0919\n abckind: {}', max_size=12)).map("\n".join).map(str.encode)
)
def test_any_file_ends_in_rows_or_in_a_refusal(data):
    told = of(data)
    assert told is None or told
