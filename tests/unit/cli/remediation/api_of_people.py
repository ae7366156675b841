"""The simulation's API server as a person sees it: who they are, what they may do, and names that it makes up."""

from __future__ import annotations

import functools
import itertools
import pickle
from types import SimpleNamespace

import pytest

from kafka_medic.cli.main import main
from kafka_medic.cli.remediation import command, read_commands
from kafka_medic.clients.kubernetes_api import ApiFailure
from tests.simulation.world import World, factor_one_cluster

BASE = "/apis/kafkamedic.dev/v1alpha1/namespaces/ns"


class ApiOfPerson:
    """`user` asks. `may`: verbs, or a verb on NAME or NAME/SUB alone. `fails`: what the API server answers to every
    call, if it does."""

    def __init__(self, world: World, user="alice", groups=("system:authenticated",), may=("approve", "create", "use")):
        self.world, self.user, self.groups, self.allowed = world, user, groups, set(may)
        self.fails: ApiFailure | None = None
        self.before_create = self.before_merge = lambda: None
        self.rbac = {}
        self.skew = None
        self._made = itertools.count(1)

    def _answers(self):
        if self.fails is not None:
            raise self.fails

    def get(self, path):
        self._answers()
        try:
            return self.world.api.get(path)
        except ApiFailure as problem:
            if problem.not_found:
                kind, name = path.split("/")[-2:]
                raise ApiFailure(404, f'{kind}.kafkamedic.dev "{name}" not found') from None
            raise

    def list(self, path, query=None):
        self._answers()
        if "rbac" in path:
            if not self.rbac:
                raise ApiFailure(403, "may not list")
            return self.rbac.get(path.rsplit("/", 1)[1], [])
        return self.world.api.list(path)

    def create(self, path, body):
        self._answers()
        if path.endswith("/selfsubjectreviews"):
            who = {"username": self.user, "groups": list(self.groups)}
            return {"metadata": {"creationTimestamp": self.world.timestamp()}, "status": {"userInfo": who}}
        if path.endswith("/selfsubjectaccessreviews"):
            asked = body["spec"]["resourceAttributes"]
            exactly = f"{asked['verb']} {asked['name']}/{asked.get('subresource', '')}".rstrip("/")
            return {"status": {"allowed": bool({asked["verb"], exactly} & self.allowed)}}
        self.before_create()
        meta = dict(body["metadata"])
        meta["name"] = f"{meta.pop('generateName')}{next(self._made)}"
        return self.world.put(path.rsplit("/", 1)[1], {**body, "metadata": meta})

    def merge(self, path, body):
        self._answers()
        self.before_merge()
        if body["metadata"]["resourceVersion"] != self.world.api.get(path)["metadata"]["resourceVersion"]:
            raise ApiFailure(409, "the object has been modified")
        stored = self.world.api.touch(path)
        for key, value in body["spec"]["remediation"].items():
            stored["spec"].setdefault("remediation", {})[key] = value
        return stored


class Terminal:
    """Somebody types the command. `answer`: what they say when asked; None: nobody is there to be asked. `slept`: what
    happens while the command waits."""

    def __init__(self, monkeypatch, capsys, api, answer="yes"):
        self.api, self.answer, self.capsys, self.asked = api, answer, capsys, 0
        self.slept = lambda: pytest.fail("it waits for ever")
        monkeypatch.setattr("kafka_medic.cli.remediation.command.KubernetesApi.of_person", lambda *_: (api, "ns"))
        monkeypatch.setattr(command, "utc_now", lambda: api.world.now)
        monkeypatch.setattr(read_commands, "sleep", lambda _: self.slept())
        monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: self.answer is not None))
        monkeypatch.setattr("builtins.input", self._ask)

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        code = main(list(words), as_plugin=True)
        told = self.capsys.readouterr()
        return code, told.out, told.err

    def _ask(self) -> str:
        self.asked += 1
        return self.answer


@functools.cache
def _proposed() -> tuple[World, bytes]:
    made = World(factor_one_cluster())
    made.install()
    made.until_phase("AwaitingApproval")
    made.step()
    return made, pickle.dumps(made.api.objects)


def proposed() -> World:
    """A plan waits for approval. An operator that has just started takes the reconciles."""
    made, objects = _proposed()
    fresh = World(factor_one_cluster(), now=made.now)
    fresh.api.objects, fresh.api.approvers = pickle.loads(objects), {"alice"}
    return fresh
