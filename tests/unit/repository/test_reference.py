"""docs/reference/ is what the code says."""

from __future__ import annotations

import pytest

from tests.docs.reference import FOLDER, PAGES, rendered


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return rendered()


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_code_says(name, pages):
    assert (FOLDER / f"{name}.md").read_text() == pages[f"{name}.md"], "run `make reference`"


def test_there_is_no_other_page(pages):
    assert {p.name for p in FOLDER.iterdir()} == set(pages)


def test_every_row_of_a_table_has_as_many_cells_as_its_head(pages):
    for name, text in pages.items():
        width = 0
        for line in text.splitlines():
            if not line.startswith("|"):
                width = 0
                continue
            cells = line.replace("\\|", "").count("|")
            width = width or cells
            assert cells == width, f"{name}: {line}"


@pytest.mark.parametrize(
    ("page", "row"),
    [
        ("chart-values", "| `metrics.serviceMonitor.interval` | `30s` |"),
        ("command", "| `--replication-factor N` | required | wanted replicas per partition |"),
        (
            "findings",
            "| `ViewDiverged` | MetadataConsistent | views, quorum | [rolling-restart](playbooks.md#rolling-restart) |",
        ),
        ("guards", "| `IsrStaysAboveMin` | RestartBrokers | no |"),
        ("metrics", "| `kafka_medic_findings` | gauge | `namespace`, `cluster`, `type`, `severity`, `state` |"),
        ("phases", "| `Rejected` | none: the run has ended |"),
        ("playbooks", "| `throttleBytesPerSecond` | integer | `50000000` | 1000000 to 10000000000 |"),
        ("resources", "| `spec.bootstrapServers` | string |"),
    ],
)
def test_a_page_has_a_row_of_this_form(page, row, pages):
    assert row in pages[f"{page}.md"]
