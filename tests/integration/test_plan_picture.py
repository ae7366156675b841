"""report.png of the command, drawn by matplotlib and read by Pillow. Needs only `.venv`."""

from __future__ import annotations

import json

import pytest
from PIL import Image

from kafka_medic.cli.main import main
from kafka_medic.plan.files.png import AFTER, BEFORE

# What a name holds is no formula to be set.
NAMES = ("$\\or{der$s", "logs-a")


@pytest.mark.parametrize(("brokers", "racks", "higher"), [(4, 2, 1100), (500, 0, 900)])
def test_a_picture_is_drawn_where_it_is_asked_for_and_an_old_one_does_not_stay(tmp_path, brokers, racks, higher):
    rows = [{"topic": topic, "partition": n, "replicas": [n % 3]} for topic in NAMES for n in range(9)]
    of = [{"id": n, "rack": f"$^{n % racks}" if racks else None} for n in range(brokers)]
    (tmp_path / "p.json").write_text(json.dumps(rows))
    (tmp_path / "b.json").write_text(json.dumps(of))
    line = ["plan", "raise-replication-factor", "--partitions", str(tmp_path / "p.json"), "--replication-factor", "2"]
    line += ["--brokers", str(tmp_path / "b.json"), "--output", str(tmp_path / "plan")]
    assert main([*line, "--png", "--throttle", "1000000"]) == 0
    with Image.open(tmp_path / "plan" / "report.png") as picture:
        width, height = picture.size
        shown = {colour for _, colour in picture.convert("RGB").getcolors(1 << 20)}
    assert width == 1200
    assert height > higher
    assert tuple(bytes.fromhex(AFTER[1:])) in shown
    assert tuple(bytes.fromhex(BEFORE[1:])) in shown
    assert main([*line, "--overwrite"]) == 0
    assert not (tmp_path / "plan" / "report.png").exists()
