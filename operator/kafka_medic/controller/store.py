"""The custom resources in the API server, typed.

Status is written by compare-and-set: whoever wrote in between wins, and the turn is taken again from fresh reads.
"""

from __future__ import annotations

import base64
import binascii
import copy
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi, custom_path
from kafka_medic.clients.ports import FailureKind, ReadFailed
from kafka_medic.guard.run import Namesake
from kafka_medic.playbook.approval import ApprovalFact, UnreadApproval, Word
from kafka_medic.resources.approval import RemediationApproval
from kafka_medic.resources.base import Model, Resource
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import ACTING_PHASES
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.vocabulary import (
    ADMISSION_POLICIES,
    APPROVAL_POLICY,
    APPROVE_VERB,
    GROUP,
    RESTORE_FINALIZER,
    Decision,
    RemediationMode,
)

R = TypeVar("R", bound=Resource)
_LOG = logging.getLogger(__name__)
MAX_APPROVALS = 50
MAX_PARSED = 1000
"""Objects that are kept taken apart; each holds a plan of 500 partitions at most."""
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_ADMISSION_PLURALS = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")


class Store:
    """Reads raise ApiFailure; an object that does not fit its type is logged and left out of lists."""

    def __init__(self, api: KubernetesApi, namespaces: Sequence[str] = ()) -> None:
        """`namespaces`: where KafkaClusters are looked for; none named: everywhere."""
        self.api = api
        self.namespaces = tuple(namespaces)
        self._parsed: dict[tuple[str, str | None, str], tuple[tuple[object, object], Resource]] = {}

    def cluster(self, namespace: str, name: str) -> KafkaCluster:
        return self.typed(KafkaCluster, self.cluster_raw(namespace, name))

    def typed(self, kind: type[R], raw: dict[str, Any]) -> R:
        """What the API server answered, as its type. An object that it answers again under the same uid and
        resourceVersion is the same one, and is not taken apart again. Raises ResourceError."""
        meta = raw["metadata"]
        version = meta.get("uid"), meta.get("resourceVersion")
        key = kind.PLURAL, meta.get("namespace"), meta["name"]
        known = self._parsed.get(key)
        if known is not None and known[0] == version and None not in version:
            return cast("R", known[1])
        if len(self._parsed) > MAX_PARSED:
            self._parsed.clear()
        found = self.parsed(kind, raw)
        self._parsed[key] = version, found
        return found

    def parsed(self, kind: type[R], raw: dict[str, Any]) -> R:
        """Taken apart. An item of a list carries neither kind nor apiVersion."""
        return kind.parse({"apiVersion": f"{GROUP}/v1alpha1", "kind": kind.KIND, **raw})

    def cluster_names(self) -> dict[tuple[str, str], int | None]:
        """Every KafkaCluster where this operator looks, as (namespace, name) with its generation."""
        found: dict[tuple[str, str], int | None] = {}
        for namespace in self.namespaces or (None,):
            for raw in self.api.list(custom_path(KafkaCluster.PLURAL, namespace)):
                meta = raw["metadata"]
                found[meta["namespace"], meta["name"]] = meta.get("generation")
        return found

    def cluster_raw(self, namespace: str, name: str) -> dict[str, Any]:
        """The KafkaCluster as it is, whether this version can read it or not."""
        return self.api.get(custom_path(KafkaCluster.PLURAL, namespace, name))

    def namesakes(self, cluster: KafkaCluster, cluster_id: str | None) -> list[Namesake] | None:
        """The other KafkaClusters that may act, wherever this operator looks, whose status names the same Kafka
        cluster. None: they cannot be read, or cannot know of this one, because its own status does not name it yet."""
        if cluster_id is None or cluster.status.cluster_id != cluster_id or cluster.metadata.creation_timestamp is None:
            return None
        created = cluster.metadata.creation_timestamp.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        found = []
        try:
            for namespace in self.namespaces or (None,):
                for raw in self.api.list(custom_path(KafkaCluster.PLURAL, namespace)):
                    metadata = raw["metadata"]
                    owes = RESTORE_FINALIZER in (metadata.get("finalizers") or ())
                    same = (raw.get("status") or {}).get("clusterId") == cluster_id
                    if metadata["uid"] == cluster.uid or not same or not (owes or _may_act(raw)):
                        continue
                    older = (metadata["creationTimestamp"], metadata["uid"]) < (created, cluster.uid)
                    found.append(Namesake(f"{metadata['namespace']}/{metadata['name']}", older, owes))
        except ApiFailure as problem:
            _LOG.warning("the other KafkaClusters could not be read: %s", problem)
            return None
        return found

    def acting_elsewhere(self, namespace: str, cluster: str) -> list[str] | None:
        """The other KafkaClusters with a run under way, wherever this operator looks; None: they cannot be read."""
        found = set()
        try:
            for where in self.namespaces or (None,):
                for raw in self.api.list(custom_path(Remediation.PLURAL, where)):
                    if (raw.get("status") or {}).get("phase") in ACTING_PHASES:
                        found.add((raw["metadata"]["namespace"], raw["spec"]["clusterRef"]["name"]))
        except ApiFailure as problem:
            _LOG.warning("the runs of other KafkaClusters could not be read: %s", problem)
            return None
        return sorted("/".join(key) for key in found - {(namespace, cluster)})

    def write_invalid(self, kind: type[Resource], condition: str, raw: dict[str, Any], message: str) -> None:
        """Say on an object that cannot be read, in that condition, why nothing is done with it."""
        raw = copy.deepcopy(raw)
        status = raw.setdefault("status", {})
        conditions = [c for c in status.get("conditions") or [] if c.get("type") != condition]
        before = [c for c in status.get("conditions") or [] if c.get("type") == condition]
        if before and (before[0].get("reason"), before[0].get("message")) == ("InvalidSpec", message[:8192]):
            return
        told = {
            "type": condition,
            "status": "False",
            "reason": "InvalidSpec",
            "message": message[:8192],
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        status["conditions"] = [*conditions, told]
        metadata = raw["metadata"]
        self.api.replace(custom_path(kind.PLURAL, metadata.get("namespace"), metadata["name"], "status"), raw)

    def playbook(self, name: str) -> Playbook | None:
        """None when it is gone, and when it cannot be read: neither can be run."""
        try:
            return self.typed(Playbook, self.api.get(custom_path(Playbook.PLURAL, None, name)))
        except ResourceError as problem:
            _LOG.error("%s", problem)
            return None
        except ApiFailure as problem:
            if problem.not_found:
                return None
            raise

    def playbooks(self) -> list[Playbook]:
        return self._list(Playbook, None)

    def remediations(self, namespace: str, cluster: str) -> tuple[list[Remediation], list[str]]:
        """All of one KafkaCluster, oldest first; and the names of those that this version cannot read. What those are
        doing is not known, so nothing may be done beside them."""
        found, unreadable = [], []
        for raw in self.api.list(custom_path(Remediation.PLURAL, namespace)):
            if (raw.get("spec", {}).get("clusterRef") or {}).get("name") != cluster:
                continue
            try:
                found.append(self.typed(Remediation, raw))
            except ResourceError as problem:
                _LOG.error("unreadable: %s", problem)
                unreadable.append(raw["metadata"]["name"])
        return sorted(found, key=lambda r: (str(r.metadata.creation_timestamp), r.name)), unreadable

    def remediation(self, namespace: str, name: str) -> Remediation:
        return self.typed(Remediation, self.api.get(custom_path(Remediation.PLURAL, namespace, name)))

    def create_remediation(self, body: dict[str, Any]) -> Remediation | None:
        """None when one of that name is there already: it was proposed by an earlier turn."""
        path = custom_path(Remediation.PLURAL, body["metadata"]["namespace"])
        try:
            return Remediation.parse(self.api.create(path, body))
        except ApiFailure as problem:
            if problem.conflict:
                return None
            raise

    def approvals(self, run: Remediation) -> list[Word]:
        """Every RemediationApproval that names this Remediation, with whether its approver may approve it now; and
        those that cannot be read, unless they are clearly about something else."""
        digest = run.status.plan.digest if run.status.plan else None
        mine: list[RemediationApproval] = []
        unread: list[UnreadApproval] = []
        for raw in self.api.list(custom_path(RemediationApproval.PLURAL, run.namespace)):
            try:
                approval = self.typed(RemediationApproval, raw)
            except ResourceError as problem:
                if not _about_another(raw, run, digest):
                    unread.append(UnreadApproval(str(raw["metadata"]["name"]), str(problem)))
                continue
            if approval.spec.remediation_ref.name == run.name:
                mine.append(approval)
        present: list[RemediationApproval] = []
        others: list[RemediationApproval] = []
        for approval in mine:
            exact = (approval.spec.remediation_ref.uid, approval.spec.plan_digest) == (run.uid, digest)
            (present if exact else others).append(approval)
        people = sorted({_who(a) for a in present})
        rights = {who: self._may_approve(*who, run) for who in people}
        said = Counter[tuple[str, Decision]]()
        ranked = []
        for approval in present:
            word = approval.spec.approver, approval.spec.decision
            said[word] += 1
            # Status has room for so many: a word that can count comes before one that cannot, a No before a Yes, and
            # nobody is crowded out by another's saying it again.
            ranked.append((rights[_who(approval)] is False, word[1] is not Decision.REJECT, said[word], approval))
        ranked.sort(key=lambda r: r[:3])
        # About another plan or an earlier run of the same name: listed with why, and whoever said it needs no right.
        kept = [*(r[3] for r in ranked), *others][:MAX_APPROVALS]
        return [*unread, *(ApprovalFact(a, rights.get(_who(a), False)) for a in kept)]

    def _may_approve(self, user: str, groups: tuple[str, ...], run: Remediation) -> bool | None:
        """Admission has held the groups to those that the user was in when the approval was created."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user,
                "groups": sorted({*groups, "system:authenticated"}),
                "resourceAttributes": {
                    "group": GROUP,
                    "resource": Remediation.PLURAL,
                    "verb": APPROVE_VERB,
                    "namespace": run.namespace,
                    "name": run.name,
                },
            },
        }
        try:
            answer = self.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        except ApiFailure as problem:
            _LOG.warning("could not ask whether %s may approve: %s", user, problem)
            return None
        return bool(answer.get("status", {}).get("allowed"))

    def policies_installed(self) -> bool | None:
        """Whether each admission policy and its binding are there; None when that cannot be read."""
        try:
            # Side by side: all four are read in every turn of a run, and again before each effect.
            with ThreadPoolExecutor(len(_ADMISSION_PLURALS) * len(ADMISSION_POLICIES), "policies") as pool:
                paths = [
                    f"{_ADMISSION}/{plural}/{name}" for name in ADMISSION_POLICIES for plural in _ADMISSION_PLURALS
                ]
                found = list(pool.map(self.api.get, paths))
        except ApiFailure as problem:
            return False if problem.not_found else None
        for name, policy, binding in zip(ADMISSION_POLICIES, found[::2], found[1::2], strict=True):
            if policy["spec"].get("failurePolicy", "Fail") != "Fail":
                return False
            if name == APPROVAL_POLICY and not _holds_groups(policy):
                return False
            if "Deny" not in binding["spec"].get("validationActions", []):
                return False
        return True

    def write_status(self, current: Resource, status: Model) -> str:
        """PUT the status over exactly the version that was read; answers the new resourceVersion. Raises ApiFailure
        (`conflict` when somebody wrote in between)."""
        path = custom_path(current.PLURAL, current.namespace, current.name, "status")
        body = {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": current.KIND,
            "metadata": {
                "name": current.name,
                "resourceVersion": current.metadata.resource_version,
                "uid": current.uid,
            },
            # The spec is not looked at on this path, but the server validates the whole object.
            "spec": current.model_dump(mode="json", by_alias=True, exclude_none=True, include={"spec"})["spec"],
            "status": status.to_kubernetes(),
        }
        if current.namespace:
            body["metadata"]["namespace"] = current.namespace
        return str(self.api.replace(path, body)["metadata"]["resourceVersion"])

    def hold(self, current: R) -> R:
        """Put our finalizer on exactly the version that was read; one that is going already can take no more."""
        return self._finalizers(current, (*current.metadata.finalizers, RESTORE_FINALIZER))

    def let_go(self, current: R) -> R:
        """Take our finalizer off exactly the version that was read."""
        return self._finalizers(current, tuple(f for f in current.metadata.finalizers if f != RESTORE_FINALIZER))

    def _finalizers(self, current: R, wanted: tuple[str, ...]) -> R:
        """The object with its metadata as it is then. Raises ApiFailure (`conflict` when somebody wrote in between)."""
        metadata = {
            "uid": current.uid,
            "resourceVersion": current.metadata.resource_version,
            "finalizers": list(wanted),
        }
        path = custom_path(current.PLURAL, current.namespace, current.name)
        version = str(self.api.merge(path, {"metadata": metadata})["metadata"]["resourceVersion"])
        now = current.metadata.model_copy(update={"resource_version": version, "finalizers": wanted})
        return current.model_copy(update={"metadata": now})

    def secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """What is in a Secret. Raises ReadFailed, naming the Secret and the key, and never what is in it."""
        try:
            data = self.api.get(f"/api/v1/namespaces/{namespace}/secrets/{name}").get("data") or {}
        except ApiFailure as problem:
            raise ReadFailed(FailureKind.CREDENTIALS, f"Secret {name} could not be read: {problem.message}") from None
        try:
            return {key: base64.b64decode(value, validate=True) for key, value in data.items()}
        except (binascii.Error, TypeError):
            raise ReadFailed(FailureKind.CREDENTIALS, f"Secret {name} is not in base64") from None

    def _list(self, kind: type[R], namespace: str | None) -> list[R]:
        found = []
        for raw in self.api.list(custom_path(kind.PLURAL, namespace)):
            try:
                found.append(self.typed(kind, raw))
            except ResourceError as problem:
                _LOG.error("left out: %s", problem)
        return found


def _may_act(raw: dict[str, Any]) -> bool:
    """Whether that KafkaCluster's rules let anything be done."""
    policy = (raw.get("spec") or {}).get("remediation") or {}
    modes = [policy.get("mode"), *(p.get("mode", policy.get("mode")) for p in policy.get("playbooks") or ())]
    return any(mode != RemediationMode.OBSERVE for mode in modes)


def _who(approval: RemediationApproval) -> tuple[str, tuple[str, ...]]:
    return approval.spec.approver, tuple(sorted(approval.spec.approver_groups))


def _holds_groups(policy: dict[str, Any]) -> bool:
    """Whether it is one that looks at spec.approverGroups: under an older one anybody could write any group."""
    return any("approverGroups" in v.get("expression", "") for v in policy["spec"].get("validations") or ())


def _about_another(raw: dict[str, Any], run: Remediation, digest: str | None) -> bool:
    """Whether an approval that cannot be read as a whole says all the same that it is about another run or plan."""
    spec = raw.get("spec")
    reference = spec.get("remediationRef") if isinstance(spec, dict) else None
    said = [spec.get("planDigest")] if isinstance(spec, dict) else []
    said += [reference.get("name"), reference.get("uid")] if isinstance(reference, dict) else []
    present = (digest, run.name, run.uid)
    return any(isinstance(word, str) and word not in present for word in said)
