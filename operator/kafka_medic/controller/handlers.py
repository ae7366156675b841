"""kopf: watches that wake the workers. Nothing is decided here.

Only `on.event` handlers: they need no finalizer and leave no annotation, so that nothing of ours on an object can be
forged. Reconciles add and remove the one finalizer there is (docs/design/0009-finalizer.md), through the store.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Iterator
from typing import Any

import kopf

from kafka_medic.clients.kubernetes_watch import watch_session
from kafka_medic.controller.events import recorder
from kafka_medic.controller.fleet import Fleet, Key
from kafka_medic.controller.orphans import Orphans
from kafka_medic.controller.playbook_status import accept
from kafka_medic.controller.store import Store
from kafka_medic.controller.unreadable import Unreadable
from kafka_medic.controller.unwatched import report_unwatched
from kafka_medic.controller.watch_audit import WatchAudit
from kafka_medic.resources.approval import RemediationApproval
from kafka_medic.resources.base import Resource
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.vocabulary import GROUP, VERSION

_LOG = logging.getLogger(__name__)


class RetryDelays:
    """Seconds between kopf's tries of one request. When they end, a watch that fails ends the process. Before the first
    event that is right, since a right may be missing for good; afterwards the API server is away, and comes back."""

    def __init__(self) -> None:
        self.received = False

    def __iter__(self) -> Iterator[float]:
        yield from (1, 1, 2, 3, 5, 8, 13, 21)
        while self.received:
            yield 10


@functools.lru_cache(maxsize=1)
def connected(info: kopf.ConnectionInfo) -> kopf.AiohttpSession:
    """The way to the API server with those credentials. The same for the same ones, by which kopf knows what has been
    refused and does not try it again and again."""
    session = watch_session(info.as_ssl_context(), info.as_http_headers())
    return kopf.AiohttpSession(server=info.server, aiohttp_session=session)


async def note_cluster(fleet: Fleet, store: Store, change: str | None, key: Key, meta: Any) -> None:
    """A KafkaCluster is there, or gone: who is watched may change, and is reported."""
    if change == "DELETED":
        fleet.gone(key)
    else:
        fleet.present(key, meta.get("generation"), meta.get("creationTimestamp") or "")
    if fleet.most is not None:
        await asyncio.to_thread(report_unwatched, store.api, fleet)


def register(registry: kopf.OperatorRegistry, fleet: Fleet, store: Store, watch_audit: WatchAudit) -> None:
    """All handlers of the operator."""
    retry_delays = RetryDelays()
    _register_start_and_stop(registry, fleet, watch_audit, retry_delays)
    _register_cluster_watch(registry, fleet, store)
    _register_other_watches(registry, fleet, store, retry_delays)
    _register_liveness(registry, fleet, watch_audit)


def _register_start_and_stop(
    registry: kopf.OperatorRegistry, fleet: Fleet, watch_audit: WatchAudit, retry_delays: RetryDelays
) -> None:
    @kopf.on.login(registry=registry)
    async def login(**known: Any) -> kopf.AiohttpSession | None:
        # As our own client does it: by the address that Kubernetes gives a Pod, which needs no DNS.
        info = kopf.login_via_client(**known)
        return None if info is None else connected(info)

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.persistence.finalizer = f"{GROUP}/finalizer"
        settings.persistence.progress_storage = kopf.StatusProgressStorage(field="status.kopf")
        settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
        settings.posting.enabled = False
        # A watch that receives nothing for so long is opened anew: a silent connection would stall the operator.
        settings.watching.server_timeout = 300
        settings.watching.client_timeout = 330
        settings.watching.connect_timeout = 10
        settings.networking.error_backoffs = retry_delays
        watch_audit.start()

    @kopf.on.cleanup(registry=registry)
    async def stop(**_: Any) -> None:
        watch_audit.stop()
        fleet.stop()


def _register_cluster_watch(registry: kopf.OperatorRegistry, fleet: Fleet, store: Store) -> None:
    @kopf.on.event(GROUP, VERSION, "kafkaclusters", registry=registry)
    async def cluster_changed(type: str | None, namespace: str | None, name: str, meta: Any, **_: Any) -> None:
        await note_cluster(fleet, store, type, (namespace or "", name), meta)


def _register_other_watches(
    registry: kopf.OperatorRegistry, fleet: Fleet, store: Store, retry_delays: RetryDelays
) -> None:
    record = recorder(store.api)
    orphans, unreadable = Orphans(store, record), Unreadable(record)

    async def check_readable(kind: type[Resource], change: str | None, raw: dict[str, Any]) -> None:
        retry_delays.received = True
        if change == "DELETED":
            unreadable.forget(raw)
        else:
            await asyncio.to_thread(unreadable.check, kind, raw)

    @kopf.on.event(GROUP, VERSION, "remediations", registry=registry)
    async def remediation_changed(
        type: str | None, namespace: str | None, spec: Any, meta: Any, body: Any, **_: Any
    ) -> None:
        await check_readable(Remediation, type, dict(body))
        cluster = (spec.get("clusterRef") or {}).get("name")
        # Our own status writes come back as MODIFIED: only what others do wakes the worker.
        if type != "MODIFIED" or meta.get("deletionTimestamp"):
            fleet.wake(namespace, cluster)
        if type not in ("MODIFIED", "DELETED") and not fleet.knows(namespace or "", cluster or ""):
            await asyncio.to_thread(orphans.check, dict(body))

    @kopf.on.event(GROUP, VERSION, "remediationapprovals", registry=registry)
    async def approval_changed(type: str | None, namespace: str | None, body: Any, **_: Any) -> None:
        await check_readable(RemediationApproval, type, dict(body))
        fleet.wake(namespace)

    @kopf.on.event(GROUP, VERSION, "playbooks", registry=registry)
    async def playbook_changed(type: str | None, body: Any, **_: Any) -> None:
        await check_readable(Playbook, type, dict(body))
        if type != "DELETED":
            await accept(store, dict(body))
        fleet.wake()


def _register_liveness(registry: kopf.OperatorRegistry, fleet: Fleet, watch_audit: WatchAudit) -> None:
    @kopf.on.probe(id="clusters", registry=registry)
    async def alive(**_: Any) -> str:
        stalled = fleet.stalled() + watch_audit.missed()
        if stalled:
            raise kopf.PermanentError(f"no longer watched: {'; '.join(stalled)}")
        return "ok"
