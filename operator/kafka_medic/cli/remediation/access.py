"""Requests to the API server as the person who runs the command, and what its refusals mean to them."""

from __future__ import annotations

import base64
import contextlib
import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from kafka_medic.cli.exits import NoAnswerError, RefusedError, UnusableInputError
from kafka_medic.clients.kubernetes_api import ApiFailure, custom_path
from kafka_medic.cluster.names import shown
from kafka_medic.resources.approval import RemediationApproval
from kafka_medic.resources.base import Resource
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.plan_part import PlanPart, part_name
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.vocabulary import API_VERSION, GROUP, Decision

Object = dict[str, Any]
R = TypeVar("R", bound=Resource)
T = TypeVar("T")

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_MAX_GROUPS = 256
_ATTEMPTS = 10
_SERVER_FAULTS = frozenset({0, 408, 429})


class Api(Protocol):
    """The part of `KubernetesApi` that the command uses."""

    def get(self, path: str) -> Object: ...

    def list(self, path: str, query: Mapping[str, str] | None = None) -> list[Object]: ...

    def create(self, path: str, body: Object) -> Object: ...

    def merge(self, path: str, body: Object) -> Object: ...


@dataclass(frozen=True, slots=True)
class Person:
    """Who the API server says the person is. `time`: by its own clock, if the response had it."""

    name: str
    groups: tuple[str, ...]
    time: datetime


@dataclass(frozen=True, slots=True)
class Listed:
    """A Remediation as the API server lists it; `run` is None, with `problem`, when this version cannot read it."""

    namespace: str
    name: str
    raw: Object
    run: Remediation | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ListedCluster:
    """A KafkaCluster as it is listed; `cluster` is None, with `problem`, when this version cannot read it."""

    namespace: str
    name: str
    cluster: KafkaCluster | None
    problem: str = ""


def name_of(kind: str, text: str) -> str:
    """The text, if it can be a name at all: it becomes part of a path. Raises UnusableInputError."""
    if not _NAME.fullmatch(text):
        raise UnusableInputError(kind, f"{shown(text)!r} is not a valid name of an object")
    return text


@dataclass(frozen=True, slots=True)
class Access:
    """One person's access to one namespace; with `everywhere`, lists are of all namespaces."""

    api: Api
    namespace: str
    now: Callable[[], datetime]
    everywhere: bool = False

    def remediation(self, name: str) -> Remediation:
        return _typed(Remediation, self._object(Remediation, name, self.namespace))

    def cluster(self, name: str) -> KafkaCluster:
        return _typed(KafkaCluster, self._object(KafkaCluster, name, self.namespace))

    def playbook(self, name: str) -> Playbook:
        return _typed(Playbook, self._object(Playbook, name, None))

    def clusters(self) -> list[ListedCluster]:
        """By namespace and name."""
        path = custom_path(KafkaCluster.PLURAL, None if self.everywhere else self.namespace)
        found = [
            _listed_cluster(raw) for raw in _request("KafkaClusters", lambda: self.api.list(path, {"limit": "50"}))
        ]
        return sorted(found, key=lambda e: (e.namespace, e.name))

    def remediations(self, cluster: str | None = None) -> list[Listed]:
        """Oldest first; of one KafkaCluster or of all."""
        where = None if self.everywhere else self.namespace
        path = custom_path(Remediation.PLURAL, where)
        found = [
            _listed(raw)
            for raw in _request("Remediations", lambda: self.api.list(path, {"limit": "100"}))
            if cluster is None or ((raw.get("spec") or {}).get("clusterRef") or {}).get("name") == cluster
        ]
        return sorted(found, key=lambda e: (str(e.raw["metadata"].get("creationTimestamp")), e.namespace, e.name))

    def approvals(self, run: Remediation) -> list[RemediationApproval]:
        """The RemediationApprovals that name a run of that name, as far as this version can read them."""
        path = custom_path(RemediationApproval.PLURAL, run.namespace)
        found = []
        for raw in _request("RemediationApprovals", lambda: self.api.list(path, {"limit": "100"})):
            with contextlib.suppress(UnusableInputError):
                approval = _typed(RemediationApproval, raw)
                if approval.spec.remediation_ref.name == run.name:
                    found.append(approval)
        return found

    def plan_file(self, run: Remediation, sha256: str) -> bytes | None:
        """The file of a long plan as the operator has published it, by what the pieces say; None: not as a whole, or
        not for this person to read."""
        data, number, count = b"", 0, 1
        while number < count:
            path = custom_path(PlanPart.PLURAL, run.namespace, part_name(run.uid or "", number))
            try:
                part = _typed(PlanPart, self.api.get(path)).spec
                if part.sha256 != sha256:
                    return None
                data += base64.b64decode(part.data, validate=True)
            except (ApiFailure, UnusableInputError, ValueError):
                return None
            number, count = number + 1, part.parts
        return data

    def me(self) -> Person:
        """Who asks: only the API server knows, whatever the kubeconfig calls it."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        answer = _request("who you are", lambda: self.api.create(path, body))
        user = (answer.get("status") or {}).get("userInfo") or {}
        if not user.get("username"):
            raise NoAnswerError("the API server did not report your user name (SelfSubjectReview)")
        created = (answer.get("metadata") or {}).get("creationTimestamp")
        time = datetime.fromisoformat(created).astimezone(UTC) if created else self.now()
        return Person(str(user["username"]), tuple(str(g) for g in user.get("groups") or ()), time)

    def may(self, verb: str, resource: str, name: str = "", sub: str = "") -> bool | None:
        """Whether the person has that right here, on the object or on `sub` of it; None when it could not be asked."""
        attributes = {"group": GROUP, "resource": resource, "verb": verb, "namespace": self.namespace, "name": name}
        attributes |= {"subresource": sub} if sub else {}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        try:
            answer = self.api.create(_REVIEWS, body)
        except ApiFailure:
            return None
        return bool((answer.get("status") or {}).get("allowed"))

    def create_approval(self, run: Remediation, digest: str, decision: Decision, reason: str, me: Person) -> str:
        """Create the RemediationApproval; its name. It names the plan that was shown, whatever the plan is by now."""
        spec: Object = {
            "remediationRef": {"name": run.name, "uid": run.uid},
            "planDigest": digest,
            "decision": decision.value,
            "reason": reason,
            "approver": me.name,
        }
        if me.groups and len(me.groups) <= _MAX_GROUPS:
            spec["approverGroups"] = list(me.groups)
        body = {
            "apiVersion": API_VERSION,
            "kind": RemediationApproval.KIND,
            "metadata": {"generateName": f"{run.name[:200].rstrip('.-')}-", "namespace": self.namespace},
            "spec": spec,
        }
        path = custom_path(RemediationApproval.PLURAL, self.namespace)
        stored = _request("the RemediationApproval", lambda: self.api.create(path, body))
        return str(stored["metadata"]["name"])

    def create_remediation(
        self, cluster: KafkaCluster, playbook: Playbook, parameters: Mapping[str, str], me: Person
    ) -> str:
        """Create a Remediation in the person's own name; its name."""
        # What the operator pinned counts, where it has seen this very playbook: its digest is the one compared.
        status, generation = playbook.status, playbook.metadata.generation
        seen = status.digest if status.observed_generation == generation else None
        body = {
            "apiVersion": API_VERSION,
            "kind": Remediation.KIND,
            "metadata": {
                "generateName": f"{cluster.name[:120].rstrip('.-')}-{playbook.name[:60].rstrip('.-')}-",
                "namespace": self.namespace,
                "ownerReferences": [
                    {"apiVersion": API_VERSION, "kind": cluster.KIND, "name": cluster.name, "uid": cluster.uid}
                ],
            },
            "spec": {
                "clusterRef": {"name": cluster.name, "uid": cluster.uid},
                "playbook": {"name": playbook.name, "digest": seen or playbook.digest()},
                "parameters": dict(parameters),
                "requestedBy": me.name,
            },
        }
        path = custom_path(Remediation.PLURAL, self.namespace)
        stored = _request("the Remediation", lambda: self.api.create(path, body))
        return str(stored["metadata"]["name"])

    def change_policy(self, cluster: KafkaCluster, change: Object) -> None:
        """Change `spec.remediation`, only over the rules that were read. The operator's own writes of the status come
        in between all the time and hinder nobody."""
        path = custom_path(KafkaCluster.PLURAL, self.namespace, cluster.name)
        present = cluster
        for _ in range(_ATTEMPTS):
            body = {"metadata": {"resourceVersion": present.metadata.resource_version}, "spec": {"remediation": change}}
            try:
                self.api.merge(path, body)
            except ApiFailure as problem:
                present = self.cluster(cluster.name) if problem.conflict else present
                if problem.conflict and present.spec.remediation == cluster.spec.remediation:
                    continue
                raise _as_error(f"KafkaCluster {cluster.name}", problem) from None
            return
        raise NoAnswerError(f"KafkaCluster {cluster.name}: another client changed it at each try")

    def rbac(self) -> tuple[Sequence[Object], Sequence[Object]] | None:
        """The roles and the bindings that can give a right in this namespace; None when the person may not read
        them, which is the rule."""
        rbac, here = "/apis/rbac.authorization.k8s.io/v1", f"namespaces/{self.namespace}/"
        try:
            roles = [*self.api.list(f"{rbac}/clusterroles"), *self.api.list(f"{rbac}/{here}roles")]
            bindings = [*self.api.list(f"{rbac}/clusterrolebindings"), *self.api.list(f"{rbac}/{here}rolebindings")]
        except ApiFailure:
            return None
        return roles, bindings

    def _object(self, kind: type[Resource], name: str, namespace: str | None) -> Object:
        path = custom_path(kind.PLURAL, namespace, name_of(kind.KIND, name))
        what = f"{kind.KIND} {name}{f' in namespace {namespace}' if namespace else ''}"
        try:
            return self.api.get(path)
        except ApiFailure as problem:
            if not _is_missing(problem):
                raise _as_error(what, problem) from None
        raise UnusableInputError(what, "not found", self._meant(kind, name, namespace))

    def _meant(self, kind: type[Resource], name: str, namespace: str | None) -> str:
        """The name that is nearest, or how to find it."""
        try:
            listed = self.api.list(custom_path(kind.PLURAL, namespace), {"limit": "500"})
        except ApiFailure:
            listed = []
        near = difflib.get_close_matches(name, [str(raw["metadata"]["name"]) for raw in listed], 1)
        return f"did you mean {near[0]}?" if near else _WHERE_IT_IS


def _typed(kind: type[R], raw: Object) -> R:
    try:
        return kind.parse({"apiVersion": API_VERSION, "kind": kind.KIND, **raw})
    except ResourceError as problem:
        message = "; ".join(str(p) for p in problem.problems[:3])
        way_out = "use the kafka-medic of the operator's own version"
        raise UnusableInputError(f"{kind.KIND} {problem.name}", f"cannot be read: {message}", way_out) from None


def _listed(raw: Object) -> Listed:
    meta = raw["metadata"]
    names = str(meta.get("namespace", "")), str(meta["name"])
    try:
        return Listed(*names, raw, _typed(Remediation, raw))
    except UnusableInputError as problem:
        return Listed(*names, raw, None, str(problem))


def _listed_cluster(raw: Object) -> ListedCluster:
    meta = raw["metadata"]
    names = str(meta.get("namespace", "")), str(meta["name"])
    try:
        return ListedCluster(*names, _typed(KafkaCluster, raw))
    except UnusableInputError as problem:
        return ListedCluster(*names, None, str(problem))


def _request(what: str, call: Callable[[], T]) -> T:
    """The answer, or what its refusal means to the person."""
    try:
        return call()
    except ApiFailure as problem:
        raise _as_error(what, problem) from None


def _as_error(what: str, problem: ApiFailure) -> NoAnswerError | RefusedError | UnusableInputError:
    message = shown(problem.message, 1000)
    if problem.status == 0:
        return NoAnswerError(message, _UNREACHED)  # it names the address; every request would have the same answer
    if problem.status in _SERVER_FAULTS or problem.status >= 500:
        return NoAnswerError(f"{what}: the API server answered {problem.status}: {message}", _UNREACHED)
    if _is_missing(problem):
        return UnusableInputError(what, "not found", _WHERE_IT_IS)
    if problem.not_found:
        way_out = "install the chart's types, or choose another --context"
        return UnusableInputError(what, "this API server does not serve kafka-medic's types", way_out)
    if problem.conflict:
        return RefusedError(f"{what}: another client changed it at the same time: {message}", "try again")
    if problem.status == 401:
        return RefusedError(f"{what}: your credentials are not accepted: {message}", "log in again")
    return RefusedError(f"{what}: {message}", _WAYS_OUT.get(problem.status, ""))


def _is_missing(problem: ApiFailure) -> bool:
    """Of an object; a type that is missing is another thing."""
    return problem.not_found and '" not found' in problem.message


_WHERE_IT_IS = "`list` and `status` show what exists; -n names a namespace"
_UNREACHED = "check it with `kubectl cluster-info`, then the VPN, and the context (`kubectl config current-context`)"
_WAYS_OUT = {
    403: "`kubectl auth whoami` shows who you are; the README's table `Who may do what` has the roles to ask for",
}
