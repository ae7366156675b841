"""Regular expressions over names: whatever somebody writes takes time in proportion to the names."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_medic.playbook.offsets.parameters import ResetParameters
from kafka_medic.playbook.offsets.reset_plan import selects, selects_topic
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import ConsumerGroups, KafkaCluster
from kafka_medic.resources.name_patterns import NameFilter, among, matching, refused
from kafka_medic.resources.vocabulary import API_VERSION

LONG = "payments.orders.events.v1-" + "x" * 200
FREEZING = ".*" * 30 + "!"
"""Python's own expressions would take years for it."""
SECONDS = 5.0
"""Far above what it takes, and far below what an exponential search would."""

harmless = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\w", "x-"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        inner.map(lambda one: f"(?:{one})*"),
        inner.map(lambda one: f"(?:{one}){{1,3}}"),
    ),
    max_leaves=6,
)


@given(harmless, st.lists(st.text("abx-", max_size=6)))
def test_the_whole_name_is_matched_as_python_does(pattern: str, names: list[str]) -> None:
    assert refused(pattern) is None
    assert matching(pattern, names) == [re.fullmatch(pattern, name, re.DOTALL) is not None for name in names]


@pytest.mark.parametrize("pattern", ["(", "[", "a{2000}", "(?=a)", r"(a)\1", "a\\", r"\Qa"])
def test_what_re2_does_not_read_is_refused_with_its_reason(pattern: str) -> None:
    assert refused(pattern)
    with pytest.raises(ValueError, match="regular expression"):
        matching(pattern, ["a"])


def test_what_python_read_in_another_way_is_refused() -> None:
    assert "{0,3}" in (refused("[a-z]{,20}-v1") or "")


def test_a_pattern_stands_alone() -> None:
    assert refused("a)|(b"), "although it would be one inside other parentheses"


def test_what_a_schema_accepts_can_be_read() -> None:
    assert matching(r"\p{L}+", ["Ünïcode", "1"]) == [True, False]
    assert ConsumerGroups(include=(r"\p{Greek}.*",)).wanted()("αβγ")


def test_names_are_whole_also_with_line_breaks() -> None:
    assert matching("a.*", ["a\nb", "b\na"]) == [True, False]
    assert matching("a|b", ["a", "b", "ab"]) == [True, True, False]


@pytest.mark.parametrize("pattern", [FREEZING, "(x+x+)+y", "((.{0,30}){0,30})!", "(((x*)*)*)*y"])
def test_no_pattern_takes_long(pattern: str) -> None:
    began = time.monotonic()
    settings = ResetParameters("to-latest", pattern, pattern, pattern)
    names = [f"{LONG}{n}" for n in range(200)]
    assert selects(settings).of(names) == selects_topic(settings).of(names) == []
    assert not selects(settings)(LONG)
    assert time.monotonic() - began < SECONDS


def test_included_and_not_excluded() -> None:
    names = ["billing", "billing-test", "audit"]
    assert NameFilter().of(names) == names
    assert NameFilter(("billing.*",), (".*-test",)).of(names) == ["billing"]
    assert NameFilter(exclude=("audit", "b.*g")).of(names) == ["billing-test"]
    assert NameFilter(("",)).of([*names, ""]) == [""], "an empty pattern is no wildcard"
    assert among(lambda name: name > "b", names) == ["billing", "billing-test"]


def test_the_field_says_what_is_wrong_with_a_pattern() -> None:
    body = {
        "apiVersion": API_VERSION,
        "kind": "KafkaCluster",
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": {"bootstrapServers": "b:9092", "expectations": {"topics": [{"pattern": "(?=a)"}]}},
    }
    with pytest.raises(ResourceError, match=r"spec\.expectations\.topics\[0\]\.pattern.*RE2.*orders-\.\*"):
        KafkaCluster.parse(body)


def test_a_very_long_pattern_of_a_request_is_refused() -> None:
    with pytest.raises(ValueError, match="limit 1024"):
        selects(ResetParameters("to-latest", "a" * 1025, None, None))
