"""Playbook.status: accepted or refused with the path, and the digest that a Remediation pins."""

from __future__ import annotations

import asyncio
import copy
from datetime import UTC, datetime, timedelta

import yaml

from kafka_medic.controller.playbook_status import accept, judged
from kafka_medic.controller.store import Store
from kafka_medic.resources.playbook import Playbook
from tests.simulation.api import SimApi
from tests.simulation.world import BASE, PLAYBOOK_FILE, shipped_playbook

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PATH = f"{BASE}/playbooks"


def refused_playbook():
    raw = yaml.safe_load(PLAYBOOK_FILE.read_text())
    raw["spec"]["steps"][1]["with"] = {"shell": "rm"}
    return raw


def test_the_shipped_playbook_is_accepted_with_its_digest():
    status = judged(shipped_playbook(), NOW)
    assert status.digest == shipped_playbook().digest()
    assert [(c.type, c.status, c.reason) for c in status.conditions] == [("Accepted", "True", "Accepted")]


def test_a_refused_one_says_which_key():
    (condition,) = judged(Playbook.parse(refused_playbook()), NOW).conditions
    assert condition.status == "False"
    assert "spec.steps[1].with.shell" in condition.message


def test_judging_again_changes_nothing_until_the_verdict_does():
    first = shipped_playbook()
    again = first.model_copy(update={"status": judged(first, NOW)})
    assert judged(again, NOW + timedelta(hours=1)) == again.status


def test_the_status_is_written_once_and_a_forged_digest_is_put_right():
    api = SimApi()
    store = Store(api)
    raw = api.put(PATH, yaml.safe_load(PLAYBOOK_FILE.read_text()))
    asyncio.run(accept(store, raw))
    name = f"{PATH}/raise-replication-factor"
    assert api.get(name)["status"]["digest"] == shipped_playbook().digest()
    asyncio.run(accept(store, api.get(name)))
    assert api.status_writes == 1
    forged = api.get(name)
    forged["status"]["digest"] = "sha256:" + "0" * 64
    api.put(PATH, forged)
    asyncio.run(accept(store, api.get(name)))
    assert api.get(name)["status"]["digest"] == shipped_playbook().digest()


def test_one_that_cannot_be_read_says_so_once_and_no_digest():
    api = SimApi()
    store = Store(api)
    bad = copy.deepcopy(refused_playbook())
    bad["spec"]["steps"][0]["action"] = "RunShell"
    for _ in range(2):
        asyncio.run(accept(store, api.get(f"{PATH}/{api.put(PATH, bad)['metadata']['name']}")))
        bad = api.get(f"{PATH}/raise-replication-factor")
    (condition,) = bad["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Accepted", "False", "InvalidSpec")
    assert "spec.steps[0].action" in condition["message"]
    assert "digest" not in bad["status"]
    assert api.status_writes == 1


def test_a_lost_race_ends_quietly():
    api = SimApi()
    store = Store(api)
    old = api.put(PATH, yaml.safe_load(PLAYBOOK_FILE.read_text()))
    api.put(PATH, yaml.safe_load(PLAYBOOK_FILE.read_text()))
    asyncio.run(accept(store, old))
    assert api.status_writes == 0
