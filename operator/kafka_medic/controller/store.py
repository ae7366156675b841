"""The custom resources in the API server, typed.

Status is written by compare-and-set: whoever wrote in between wins, and the operator reconciles again from fresh reads.
"""

from __future__ import annotations

import base64
import binascii
import copy
import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.clients.kubernetes_api import ApiFailure, KubernetesApi, custom_path
from kafka_medic.cluster.names import printable
from kafka_medic.controller.proposals import is_that_proposal, renamed
from kafka_medic.controller.strimzi import with_strimzi
from kafka_medic.guard.namesakes import Namesake
from kafka_medic.observe.strimzi_cluster import NotDerivedError
from kafka_medic.playbook.approval import ApprovalFact, UnreadApproval, Word
from kafka_medic.playbook.claims import has_begun, namesake, unreadable_namesake
from kafka_medic.resources.admission import AUTHORS, REQUIRED_POLICIES, ExpectedPolicy, Standing, standing
from kafka_medic.resources.approval import RemediationApproval
from kafka_medic.resources.base import Model, Resource
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import ACTING_PHASES
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.vocabulary import (
    APPROVE_VERB,
    CREDENTIALS_LABEL,
    GROUP,
    RESTORE_FINALIZER,
    Decision,
)

R = TypeVar("R", bound=Resource)
_LOG = logging.getLogger(__name__)
MAX_APPROVALS = 50
MAX_PARSED = 1000
"""Objects that are kept taken apart; each holds a plan of 500 partitions at most."""
FORBIDDEN = 403
PROPOSE_ATTEMPTS = 5
"""In one reconcile, each under a name that was free a moment before."""
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_ADMISSION_PLURALS = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")


POLICIES_SECONDS = 60.0
"""They are ten requests, and 100 quiet clusters would read them 400 times a minute."""


def _version(raw: Mapping[str, Any] | None) -> tuple[str, str] | None:
    """What two answers share only if they are of the same object and nothing was written in between."""
    meta = raw["metadata"] if raw else {}
    uid, version = meta.get("uid"), meta.get("resourceVersion")
    return None if uid is None or version is None else (uid, version)


class Store:
    """Reads raise ApiFailure; an object that does not fit its type is logged and left out of lists."""

    def __init__(
        self, api: KubernetesApi, namespaces: Sequence[str] = (), policies: Sequence[ExpectedPolicy] = ()
    ) -> None:
        """`namespaces`: where KafkaClusters are; none named: everywhere. `policies`: as the chart rendered
        them."""
        self.api = api
        self._expected = tuple(policies)
        self.namespaces = tuple(namespaces)
        self._parsed: dict[tuple[str, str | None, str], tuple[object, Resource]] = {}
        self._authors: set[tuple[str, int]] = set()
        """Of KafkaClusters, uid and generation, whose author may get the Secrets that they name."""
        self._policies: tuple[float, Standing | None] | None = None
        self._judged: tuple[object, Standing] | None = None
        """How the admission policies stand, and of which versions of them."""

    def cluster(self, namespace: str, name: str) -> KafkaCluster:
        """As it counts, with what it leaves to Strimzi. Raises ResourceError as well."""
        try:
            return with_strimzi(self.api, self.typed(KafkaCluster, self.cluster_raw(namespace, name)))[0]
        except NotDerivedError as problem:
            raise ApiFailure(0, f"spec.strimzi: {problem}") from None

    def typed(self, kind: type[R], raw: dict[str, Any]) -> R:
        """What the API server answered, as its type. An object that it answers again under the same uid and
        resourceVersion is the same one, and is not taken apart again. Raises ResourceError."""
        meta, version = raw["metadata"], _version(raw)
        key = kind.PLURAL, meta.get("namespace"), meta["name"]
        known = self._parsed.get(key)
        if known is not None and known[0] == version and version is not None:
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
        """Every KafkaCluster in the watched namespaces, as (namespace, name) with its generation."""
        found: dict[tuple[str, str], int | None] = {}
        for namespace in self.namespaces or (None,):
            for raw in self.api.list(custom_path(KafkaCluster.PLURAL, namespace)):
                meta = raw["metadata"]
                found[meta["namespace"], meta["name"]] = meta.get("generation")
        return found

    def cluster_raw(self, namespace: str, name: str) -> dict[str, Any]:
        """The KafkaCluster as it is, whether this version can read it or not."""
        return self.api.get(custom_path(KafkaCluster.PLURAL, namespace, name))

    def namesakes(self, cluster: KafkaCluster, cluster_id: str | None, now: datetime) -> list[Namesake] | None:
        """What runs of other KafkaClusters in the watched namespaces do to the same Kafka cluster, by their own
        Remediations: a finalizer, or an age, is anybody's to have. None: they cannot be read, or cannot know of this
        KafkaCluster, because its own status does not name the Kafka cluster yet."""
        if cluster_id is None or cluster.status.cluster_id != cluster_id or cluster.metadata.creation_timestamp is None:
            return None
        created = cluster.metadata.creation_timestamp.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        found = []
        try:
            for namespace in self.namespaces or (None,):
                for raw in self._listed(KafkaCluster.PLURAL, namespace):
                    metadata = raw["metadata"]
                    if metadata["uid"] == cluster.uid or (raw.get("status") or {}).get("clusterId") != cluster_id:
                        continue
                    older = (metadata["creationTimestamp"], metadata["uid"]) < (created, cluster.uid)
                    found += self._runs_of_namesake(metadata, older, now)
        except ApiFailure as problem:
            _LOG.warning("what other KafkaClusters do to the same Kafka cluster could not be read: %s", problem)
            return None
        return found

    def _runs_of_namesake(self, metadata: dict[str, Any], older: bool, now: datetime) -> list[Namesake]:
        name, found = f"{metadata['namespace']}/{metadata['name']}", list[Namesake | None]()
        for raw in self._listed(Remediation.PLURAL, metadata["namespace"]):
            about = (raw.get("spec") or {}).get("clusterRef") or {}
            if about.get("name") != metadata["name"] or about.get("uid", metadata["uid"]) != metadata["uid"]:
                continue
            try:
                found.append(namesake(name, older, self.typed(Remediation, raw), now))
            except ResourceError as problem:
                _LOG.error("unreadable: %s", problem)
                found.append(unreadable_namesake(name, older, raw))
        return [n for n in found if n is not None]

    def _listed(self, plural: str, namespace: str | None) -> list[dict[str, Any]]:
        """All of a namespace, or everywhere. Of several namespaces, one that the operator may not read any more is
        outside of what it looks after: whoever may take a RoleBinding away there holds up nobody elsewhere."""
        try:
            return self.api.list(custom_path(plural, namespace))
        except ApiFailure as problem:
            if problem.status != FORBIDDEN or len(self.namespaces) < 2:
                raise
            _LOG.warning("%s of namespace %s are left out: %s", plural, namespace, problem)
            return []

    def acting_elsewhere(self, namespace: str, cluster: str) -> list[str] | None:
        """The other KafkaClusters in the watched namespaces with a run under way; None: they cannot be read."""
        found = set()
        try:
            for where in self.namespaces or (None,):
                for raw in self._listed(Remediation.PLURAL, where):
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
        present = {
            "type": condition,
            "status": "False",
            "reason": "InvalidSpec",
            "message": message[:8192],
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        status["conditions"] = [*conditions, present]
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
        """All of one KafkaCluster, oldest first; and the names of those that this version cannot read and that have
        begun, by what their status says. What those are doing is not known, so nothing may be done beside them. One
        that has not begun does nothing, and whoever may ask for a run could write it."""
        found, unreadable = [], []
        for raw in self.api.list(custom_path(Remediation.PLURAL, namespace)):
            if (raw.get("spec", {}).get("clusterRef") or {}).get("name") != cluster:
                continue
            try:
                found.append(self.typed(Remediation, raw))
            except ResourceError as problem:
                _LOG.error("unreadable: %s", problem)
                if has_begun(raw):
                    unreadable.append(raw["metadata"]["name"])
        return sorted(found, key=lambda r: (str(r.metadata.creation_timestamp), r.name)), unreadable

    def remediation(self, namespace: str, name: str) -> Remediation:
        return self.typed(Remediation, self.api.get(custom_path(Remediation.PLURAL, namespace, name)))

    def propose(self, body: dict[str, Any]) -> tuple[Remediation | None, list[str]]:
        """Create it; None when an earlier reconcile has. And, in words, the objects that are in its place: however many
        there are, it has the name that follows them, or, where that is taken at that very moment, is left for the next
        reconcile."""
        path, taken = custom_path(Remediation.PLURAL, body["metadata"]["namespace"]), list[str]()
        for _ in range(PROPOSE_ATTEMPTS):
            try:
                return Remediation.parse(self.api.create(path, body)), taken
            except ApiFailure as problem:
                if not problem.conflict:
                    raise
            there = {raw["metadata"]["name"]: raw for raw in self.api.list(path)}
            while (found := there.get(body["metadata"]["name"])) is not None:
                if is_that_proposal(found, body):
                    return None, taken
                author = (found.get("spec") or {}).get("requestedBy")
                who = printable(str(author)) if author else "another user"
                taken.append(f"{found['metadata']['name']} (created by {who})")
                body = renamed(body, found["metadata"]["uid"])
        return None, taken

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
        repeats = Counter[tuple[str, Decision]]()
        ranked = []
        for approval in present:
            key = approval.spec.approver, approval.spec.decision
            repeats[key] += 1
            # Status has room for so many: a word that can count comes before one that cannot, a No before a Yes, and
            # nobody is crowded out by another's saying it again.
            ranked.append((rights[_who(approval)] is False, key[1] is not Decision.REJECT, repeats[key], approval))
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
            _LOG.warning("could not check whether %s may approve: %s", user, problem)
            return None
        return bool(answer.get("status", {}).get("allowed"))

    def policies_seen(self, now: float) -> Standing | None:
        """As `policies` answered less than POLICIES_SECONDS ago, whichever cluster it was for. `now`: by a clock that
        cannot be set."""
        seen = self._policies
        if seen is None or not 0 <= now - seen[0] < POLICIES_SECONDS:
            seen = self._policies = now, self.policies()
        return seen[1]

    def policies(self, about: Collection[str] = REQUIRED_POLICIES) -> Standing | None:
        """Whether these admission policies stand as the chart rendered them, and since when; None when one of them
        cannot be read."""
        expected = [policy for policy in self._expected if policy.about in about]
        paths = [f"{_ADMISSION}/{plural}/{policy.name}" for policy in expected for plural in _ADMISSION_PLURALS]
        if not paths:
            return standing((), ())
        try:
            # Side by side: all of them are read in every reconcile of a run, and again before each effect.
            with ThreadPoolExecutor(len(paths), "policies") as pool:
                found = list(pool.map(self._if_there, paths))
        except ApiFailure as problem:
            _LOG.warning("the admission policies could not be read: %s", problem)
            return None
        versions = tuple(about), tuple(_version(each) for each in found)
        judged = self._judged
        if judged is None or judged[0] != versions or None in versions[1]:
            pairs = list(zip(found[::2], found[1::2], strict=True))
            self._judged = judged = versions, standing(expected, pairs, about)
        return judged[1]

    def _if_there(self, path: str) -> dict[str, Any] | None:
        try:
            return self.api.get(path)
        except ApiFailure as problem:
            if problem.not_found:
                return None
            raise

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
            # The API server ignores the spec on this path, but validates the whole object.
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

    def secret(self, cluster: KafkaCluster, name: str) -> Mapping[str, bytes]:
        """The content of a Secret that this KafkaCluster, as this reconcile read it, may have sent to its servers.
        Raises ReadFailed, which names the Secret and the key, and never their content."""
        try:
            stored = self.api.get(f"/api/v1/namespaces/{cluster.namespace}/secrets/{name}")
        except ApiFailure as problem:
            raise ReadFailed(FailureKind.CREDENTIALS, f"Secret {name} could not be read: {problem.message}") from None
        if (stored["metadata"].get("labels") or {}).get(CREDENTIALS_LABEL) != "true":
            why = self._author_unchecked(cluster)
            if why is not None:
                label = f"kubectl label secret {name} -n {cluster.namespace} {CREDENTIALS_LABEL}=true"
                raise ReadFailed(FailureKind.CREDENTIALS, f"Secret {name} is not used: {why}; {label}")
        data = stored.get("data") or {}
        try:
            return {key: base64.b64decode(value, validate=True) for key, value in data.items()}
        except (binascii.Error, TypeError):
            raise ReadFailed(FailureKind.CREDENTIALS, f"Secret {name} is not in base64") from None

    def _author_unchecked(self, cluster: KafkaCluster) -> str | None:
        """Why a Secret without the label is not sent where this KafkaCluster wants it; None: its author may get it.
        That holds for the spec of one generation for ever, so it is found out once."""
        if cluster.spec.security is not None and cluster.spec.security.labelled_secrets_only:
            return f"it lacks the label {CREDENTIALS_LABEL}: 'true', and spec.security.labelledSecretsOnly is true"
        spec = cluster.uid or "", cluster.metadata.generation or 0
        if spec in self._authors:
            return None
        # Read after the KafkaCluster: a policy that went before this spec was written is gone now.
        policies = self.policies(AUTHORS)
        if policies is None:
            return "the admission policy that checks who may name Secrets could not be read, and it lacks the label"
        if policies.since is None:
            return f"nothing checks who may name Secrets ({policies.why}), and it lacks the label {CREDENTIALS_LABEL}"
        if not policies.covers(cluster.metadata.creation_timestamp):
            return (
                f"the KafkaCluster is older than the check of who may name Secrets ({policies.since:%Y-%m-%d %H:%M:%S} "
                f"UTC), and it lacks the label {CREDENTIALS_LABEL}"
            )
        if len(self._authors) > MAX_PARSED:
            self._authors.clear()
        self._authors.add(spec)
        return None

    def _list(self, kind: type[R], namespace: str | None) -> list[R]:
        found = []
        for raw in self.api.list(custom_path(kind.PLURAL, namespace)):
            try:
                found.append(self.typed(kind, raw))
            except ResourceError as problem:
                _LOG.error("left out: %s", problem)
        return found


def _who(approval: RemediationApproval) -> tuple[str, tuple[str, ...]]:
    return approval.spec.approver, tuple(sorted(approval.spec.approver_groups))


def _about_another(raw: dict[str, Any], run: Remediation, digest: str | None) -> bool:
    """Whether an approval that cannot be read as a whole says all the same that it is about another run or plan."""
    spec = raw.get("spec")
    reference = spec.get("remediationRef") if isinstance(spec, dict) else None
    named = [spec.get("planDigest")] if isinstance(spec, dict) else []
    named += [reference.get("name"), reference.get("uid")] if isinstance(reference, dict) else []
    present = (digest, run.name, run.uid)
    return any(isinstance(value, str) and value not in present for value in named)
