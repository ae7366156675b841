"""Certificates that are near their end, or past it: of brokers' listeners, of the operator, and of authorities.

Here the operator's clock is compared with times of the issuers' clocks. No playbook has this finding as its trigger, so
nothing that changes a cluster rests on the comparison. Where the API server's clock is measured to differ, its time
counts: the cluster's machines more likely have that one.

An authority counts only where something rests on it. Of the ways from a broker's certificate up to one that the
operator trusts, the best is taken: an old authority beside the one that replaced it is nobody's trouble.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kafka_medic.cluster.certificates import (
    SECRET,
    SOURCE,
    Certificate,
    CertificateChain,
    CertificateUse,
    Nearness,
    Peer,
)
from kafka_medic.cluster.clock import remark
from kafka_medic.cluster.elements import certificates_unread
from kafka_medic.cluster.snapshot import ClusterInfo
from kafka_medic.diagnose.columns import some
from kafka_medic.diagnose.finding import Finding
from kafka_medic.diagnose.scene import Scene
from kafka_medic.report.units import duration, many, moment
from kafka_medic.resources.vocabulary import Severity

SHOWN = 8
"""Certificates in the evidence."""
_PEERS = {Peer.KAFKA: "Kafka", Peer.ZOOKEEPER: "ZooKeeper", Peer.TOKEN_ENDPOINT: "the OAuth token endpoint"}
_STRIMZI = "O=io.strimzi"
_STRIMZI_CA = "-cluster-ca-cert"


@dataclass(frozen=True, slots=True)
class _Ending:
    """A certificate near its end. where: whose it is, in words. lost: what stops, in words. holders: what a finding
    names as affected."""

    certificate: Certificate
    nearness: Nearness
    where: str
    lost: str
    holders: tuple[str, ...]
    brokers: tuple[int, ...] = ()
    read_at: datetime | None = None

    @property
    def past(self) -> bool:
        return self.nearness is Nearness.PAST


@dataclass(slots=True)
class _Judged:
    """The certificates of a snapshot at a time. Most brokers share their authorities, which are judged once."""

    now: datetime
    chains: tuple[CertificateChain, ...]
    _known: dict[str, Nearness] = field(default_factory=dict)

    def of(self, certificate: Certificate) -> Nearness:
        known = self._known.get(certificate.fingerprint)
        if known is None:
            known = self._known[certificate.fingerprint] = certificate.nearness(self.now)
        return known

    def all(self, use: CertificateUse, peer: Peer | None = None) -> Iterator[CertificateChain]:
        return (c for c in self.chains if c.use is use and peer in (None, c.peer) and c.certificates)

    def trusted(self, peer: Peer) -> dict[str, Certificate]:
        return {c.fingerprint: c for chain in self.all(CertificateUse.TRUSTED, peer) for c in chain.certificates}


def detect(scene: Scene) -> Iterator[Finding]:
    """CertificateExpiring: one for the brokers' listeners, one for the operator's own, one for authorities."""
    chains = scene.snapshot.certificates or ()
    judged = _Judged(_now(scene), chains)
    if all(judged.of(c) is Nearness.FAR for chain in chains for c in chain.certificates):
        return
    unsure = {e.name for e in scene.snapshot.unread if (e.source, e.kind) == (SOURCE, SECRET)}
    if listeners := [e for chain in judged.all(CertificateUse.LISTENER) if (e := _listener(judged, chain))]:
        yield _finding(scene, judged, "listeners", listeners, _behind(judged, listeners))
    if own := [e for chain in judged.all(CertificateUse.CLIENT) if (e := _own(judged, chain))]:
        yield _finding(scene, judged, "client", own)
    if above := list(_authorities(judged, sure=not unsure)):
        yield _finding(scene, judged, "authorities", above)


def _now(scene: Scene) -> datetime:
    """As `remark` reports it: within its bound the difference changes nothing."""
    if scene.skew is None or remark(scene.skew) is None:
        return scene.snapshot.taken_at
    return scene.snapshot.taken_at + timedelta(seconds=scene.skew.about)


def _listener(judged: _Judged, chain: CertificateChain) -> _Ending | None:
    certificate = chain.certificates[0]
    nearness = judged.of(certificate)
    if nearness is Nearness.FAR or chain.broker is None:
        return None
    listener = f"broker {chain.broker}'s listener"
    where, lost = f"the certificate of {listener}", f"clients refuse {listener}"
    return _Ending(certificate, nearness, where, lost, (chain.holder,), (chain.broker,), chain.read_at)


def _own(judged: _Judged, chain: CertificateChain) -> _Ending | None:
    certificate = chain.certificates[0]
    nearness = judged.of(certificate)
    if nearness is Nearness.FAR:
        return None
    where = f"the operator's certificate in Secret {chain.secret}, key {chain.key}"
    return _Ending(
        certificate, nearness, where, f"the operator cannot connect to {_PEERS[chain.peer]}", (chain.holder,)
    )


# Authorities


def _authorities(judged: _Judged, *, sure: bool) -> Iterator[_Ending]:
    """`sure`: all that is trusted could be read. Otherwise there may be a better way, and nothing that rests on what is
    trusted is judged."""
    found: dict[str, tuple[Certificate, set[int]]] = {}
    for broker, path in _paths(judged) if sure else ():
        for certificate in path:
            if judged.of(certificate) is not Nearness.FAR:
                found.setdefault(certificate.fingerprint, (certificate, set()))[1].add(broker)
    for chain in judged.all(CertificateUse.CLIENT):
        for certificate in _best_way(judged, chain.certificates[0], chain.certificates[1:], {}) or ():
            if judged.of(certificate) is not Nearness.FAR:
                found.setdefault(certificate.fingerprint, (certificate, set()))
    for peer in Peer if sure else ():
        trusted = judged.trusted(peer)
        if trusted and not found.keys() & trusted and all(judged.of(c) is not Nearness.FAR for c in trusted.values()):
            # Whatever is served: soon nothing of it can be verified.
            last = max(trusted.values(), key=lambda c: (-judged.of(c), c.not_after, c.fingerprint))
            found.setdefault(last.fingerprint, (last, set()))
    for certificate, brokers in found.values():
        yield _authority(judged, certificate, tuple(sorted(brokers)))


def _authority(judged: _Judged, certificate: Certificate, brokers: tuple[int, ...]) -> _Ending:
    holding = [c for c in judged.chains if any(each.fingerprint == certificate.fingerprint for each in c.certificates)]
    secrets = [f"Secret {c.secret}, key {c.key}" for c in holding if c.broker is None]
    places = [*secrets, *(["what brokers serve"] if any(c.broker is not None for c in holding) else [])]
    names = dict.fromkeys((*(c.holder for c in holding if c.broker is None), *(f"broker-{b}" for b in brokers)))
    signed = f"; that of {_brokers(brokers)} rests on it" if brokers else ""
    return _Ending(
        certificate,
        judged.of(certificate),
        f"the authority in {some(places, 3)}",
        f"every certificate that it signed is refused{signed}",
        tuple(names),
        brokers,
    )


def _paths(judged: _Judged) -> Iterator[tuple[int, tuple[Certificate, ...]]]:
    """Of each broker, the authorities that its certificate rests on. Brokers whose certificates have the same issuer
    and are served with the same others share the way."""
    trusted = judged.trusted(Peer.KAFKA)
    known: dict[tuple[object, ...], tuple[Certificate, ...] | None] = {}
    for chain in judged.all(CertificateUse.LISTENER, Peer.KAFKA):
        leaf, others = chain.certificates[0], chain.certificates[1:]
        same = leaf.issuer, leaf.authority_key, leaf.fingerprint in trusted, tuple(c.fingerprint for c in others)
        if same not in known:
            known[same] = _best_way(judged, leaf, others, trusted)
        if chain.broker is not None and (path := known[same]):
            yield chain.broker, path


def _best_way(
    judged: _Judged, leaf: Certificate, served: Sequence[Certificate], trusted: dict[str, Certificate]
) -> tuple[Certificate, ...] | None:
    """From a certificate up to one that is trusted, without itself: the way whose worst certificate is the least near
    its end. Where it is not known what is trusted, up to one whose issuer is not there. None: there is no way."""
    if leaf.fingerprint in trusted:
        return ()
    by_subject: dict[str, list[Certificate]] = {}
    for each in {**{c.fingerprint: c for c in served}, **trusted}.values():
        by_subject.setdefault(each.subject, []).append(each)
    for worst in Nearness:
        before: dict[str, Certificate | None] = {leaf.fingerprint: None}
        waiting = deque([leaf])
        while waiting:
            here = waiting.popleft()
            issuers = [c for c in by_subject.get(here.issuer, ()) if c.signed(here)]
            if here.fingerprint in trusted or not (trusted or issuers):
                return _way_back(here, before)
            for each in sorted(issuers, key=lambda c: c.not_after, reverse=True):
                if each.fingerprint not in before and judged.of(each) <= worst:
                    before[each.fingerprint] = here
                    waiting.append(each)
    return None


def _way_back(top: Certificate, before: dict[str, Certificate | None]) -> tuple[Certificate, ...]:
    way, here = list[Certificate](), top
    while (below := before[here.fingerprint]) is not None:
        way.append(here)
        here = below
    return tuple(way)


# Words


def _finding(
    scene: Scene, judged: _Judged, scope: str, endings: Sequence[_Ending], more: Iterable[str] = ()
) -> Finding:
    ordered = sorted(endings, key=lambda e: (-e.nearness, e.certificate.not_after, e.where))
    critical = any(e.nearness >= Nearness.VERY_NEAR for e in ordered)
    return Finding(
        id=f"CertificateExpiring/{scope}",
        type="CertificateExpiring",
        severity=Severity.CRITICAL if critical else Severity.WARNING,
        message=_message(ordered),
        affected=tuple(dict.fromkeys(name for e in ordered for name in e.holders)),
        evidence=(
            *(_line(judged, e) for e in ordered[:SHOWN]),
            *([f"and {many(len(ordered) - SHOWN, 'more certificate')}"] if len(ordered) > SHOWN else []),
            *more,
            *_not_known(scene),
            *_ways_out(scene.snapshot.cluster, scope, ordered, judged),
            _clock(scene),
        ),
    )


def _message(ordered: Sequence[_Ending]) -> str:
    """The same from one observation to the next, as long as nothing changes."""
    first = ordered[0]
    others = f"; {many(len(ordered) - 1, 'more certificate')} near the end" if len(ordered) > 1 else ""
    return f"{first.where} {'expired' if first.past else 'expires'} at {moment(first.certificate.not_after)}{others}"


def _line(judged: _Judged, ending: _Ending) -> str:
    c = ending.certificate
    ends = f"expired {duration(-_seconds(c.left(judged.now)))} ago" if ending.past else _remaining(c, judged.now)
    lost = ending.lost if ending.past else f"then {ending.lost}"
    served = f"; served at {moment(ending.read_at)}" if ending.read_at else ""
    return (
        f"{ending.where}: {c.subject or 'no subject'}, issued by {c.issuer or 'nobody named'}, serial {c.serial}, "
        f"valid from {moment(c.not_before)} to {moment(c.not_after)}: {ends}; {lost}{served}"
    )


def _remaining(certificate: Certificate, now: datetime) -> str:
    lifetime = _seconds(certificate.not_after - certificate.not_before)
    return f"{duration(_seconds(certificate.left(now)))} of {duration(lifetime)} left"


def _seconds(span: timedelta) -> int:
    return int(span.total_seconds())


def _brokers(ids: Sequence[int]) -> str:
    return f"broker{'' if len(ids) == 1 else 's'} {some([str(b) for b in ids], 5)}"


def _behind(judged: _Judged, endings: Sequence[_Ending]) -> Iterator[str]:
    """Brokers that still serve the former certificate after their peers have a new one."""
    ending = {b for e in endings for b in e.brokers}
    fresh = [c.certificates[0] for c in judged.all(CertificateUse.LISTENER) if c.broker not in ending]
    for e in endings[:3]:
        newer = sum(c.not_before > e.certificate.not_before for c in fresh)
        if newer:
            have = "has" if newer == 1 else "have"
            yield (
                f"{newer} of {many(len(fresh), 'other broker')} {have} a newer certificate. If that of "
                f"{_brokers(e.brokers)} was replaced too, the broker has not loaded it: restart the broker, or let it "
                "reload its keystore"
            )


def _not_known(scene: Scene) -> Iterator[str]:
    unread = certificates_unread(scene.snapshot)
    for name, why in list(unread.items())[:3]:
        yield f"not known: the certificate of {name}: {why}"
    if len(unread) > 3:
        yield f"not known: {many(len(unread) - 3, 'more certificate')}"


def _ways_out(cluster: ClusterInfo, scope: str, endings: Sequence[_Ending], judged: _Judged) -> Iterator[str]:
    by_strimzi = [e for e in endings if _STRIMZI in e.certificate.issuer.split(",")]
    if by_strimzi and scope == "client":
        secret = by_strimzi[0].holders[0].partition("/")[0]
        yield (
            "Strimzi's User Operator renews its certificate spec.clientsCa.renewalDays (30) before the end, within "
            "spec.maintenanceTimeWindows. To renew it now: kubectl annotate secret "
            f"{secret} -n {cluster.in_commands} strimzi.io/force-renew=true"
        )
    elif by_strimzi:
        names = [c.secret for c in judged.all(CertificateUse.TRUSTED, Peer.KAFKA) if c.secret]
        name = next((n for n in names if n.endswith(_STRIMZI_CA)), f"CLUSTER{_STRIMZI_CA}")
        yield (
            "Strimzi's Cluster Operator renews its certificates spec.clusterCa.renewalDays (30) before the end, within "
            "spec.maintenanceTimeWindows. To renew the authority and the brokers' certificates now: kubectl annotate "
            f"secret {name} -n {cluster.in_commands} strimzi.io/force-renew=true"
        )
    if len(by_strimzi) < len(endings):
        yield f"with cert-manager: cmctl renew CERTIFICATE -n {cluster.in_commands}. By hand: {_BY_HAND[scope]}"


_BY_HAND = {
    "listeners": "get a new certificate of the same authority, put it into the broker's keystore, and restart the "
    "broker or let it reload the keystore (KIP-226)",
    "client": "get a new certificate of an authority that the brokers trust, and put it into the Secret",
    "authorities": "add the new authority to the Secret and to all clients beside the old one, then replace the "
    "certificates that the old one signed, then remove the old one",
}
"""By what the finding is about."""


def _clock(scene: Scene) -> str:
    read = scene.read_from(SOURCE)
    if (difference := remark(scene.skew)) is not None:
        return f"{read}, judged by the API server's clock: {difference}"
    return f"{read}, judged by the operator's clock"
