"""`--command-config`: how to connect, in the properties format of Kafka's own command-line tools.

What is read becomes the same `spec.security` and the same Secrets that the operator has, so that there is one way from
there to a connection. Certificates are PEM (KIP-651); a setting that would make the connection another than Kafka's
tools make of it is refused, not ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import javaproperties

from kafka_medic.cli.exits import UnusableInputError

_LIMIT = 1024 * 1024
_OPTION = re.compile(r'(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s;"]+)')
_MEANT = ("security.", "sasl.", "ssl.", "zookeeper.ssl.")
_NO_MATTER = {
    "sasl.login.callback.handler.class",
    "sasl.client.callback.handler.class",
    "ssl.enabled.protocols",
    "ssl.protocol",
}
"""Which class of Kafka's does what we do, and which versions of TLS its tools offer."""

Held = Mapping[str, Mapping[str, bytes]]


@dataclass(frozen=True, slots=True)
class CommandConfig:
    """`spec.security`, `spec.metadata.zookeeper.tls` (None: in the clear), and the Secrets that both name."""

    security: dict[str, Any]
    zookeeper_tls: dict[str, Any] | None
    secrets: Held


def read_command_config(file: str) -> CommandConfig:
    """Raises UnusableInputError that names the file and the setting, and shows no value."""
    try:
        with Path(file).open("rb") as opened:
            text = opened.read(_LIMIT + 1)
        given: dict[str, str] = javaproperties.loads(text.decode())
    except OSError as problem:
        raise UnusableInputError(file, type(problem).__name__) from None
    except (UnicodeDecodeError, ValueError):
        raise UnusableInputError(
            file, "not a properties file", "write it as for Kafka's own tools: name=value"
        ) from None
    if len(text) > _LIMIT:
        raise UnusableInputError(file, f"longer than {_LIMIT} bytes")
    settings = _Settings(file, {name: value.strip() for name, value in given.items()})
    security: dict[str, Any] = {"protocol": settings.take("security.protocol") or "PLAINTEXT"}
    tls = settings.tls("")
    if tls:
        security["tls"] = tls
    if mechanism := settings.take("sasl.mechanism"):
        security["sasl"] = {"mechanism": mechanism, "secretRef": {"name": "sasl"}}
        settings.login(mechanism)
        # Its owner runs this command, and the file says so.
        security["allowPlaintextPassword"] = (security["protocol"], mechanism) == ("SASL_PLAINTEXT", "PLAIN")
    secured = settings.take("zookeeper.ssl.client.enable").lower() == "true"
    zookeeper_tls = settings.tls("zookeeper.")
    settings.refuse_the_rest()
    return CommandConfig(security, zookeeper_tls if secured else None, settings.secrets)


class _Settings:
    """What the file says. Each setting that is looked at is taken out, and none that counts may be left over."""

    def __init__(self, file: str, given: dict[str, str]) -> None:
        self.file = file
        self._given = given
        self.secrets: dict[str, dict[str, bytes]] = {}

    def take(self, name: str) -> str:
        return self._given.pop(name, "")

    def tls(self, prefix: str) -> dict[str, Any]:
        checks = f"{prefix}ssl.endpoint.identification.algorithm"
        if self._given.pop(checks, "https").lower() != "https":
            raise self._unusable(checks, "host names are always verified", "remove it, or set https")
        tls: dict[str, Any] = {}
        ca = self._pem(prefix, "truststore", "certificates")
        if ca is not None:
            self.secrets[f"{prefix}ca"] = {"ca.crt": ca}
            tls["caSecretRef"] = {"name": f"{prefix}ca"}
        key, chain = self._pem(prefix, "keystore", "key"), self.take(f"{prefix}ssl.keystore.certificate.chain").encode()
        if key is not None or chain:
            self.secrets[f"{prefix}cert"] = {"tls.key": key or b"", "tls.crt": chain or key or b""}
            tls["certSecretRef"] = {"name": f"{prefix}cert"}
        return tls

    def _pem(self, prefix: str, store: str, value: str) -> bytes | None:
        """The PEM text that a store is given as, or that its file holds."""
        kind, place = f"{prefix}ssl.{store}.type", self.take(f"{prefix}ssl.{store}.location")
        form = self.take(kind) or "JKS"
        inline = self.take(f"{prefix}ssl.{store}.{value}")
        if not place and not inline:
            return None
        if form.upper() != "PEM":
            way_out = "export it with keytool and openssl, and give ssl.truststore.type and ssl.keystore.type as PEM"
            raise self._unusable(kind, "only PEM can be read", way_out)
        if inline:
            return inline.encode()
        try:
            with Path(place).open("rb") as opened:
                return opened.read(_LIMIT)
        except OSError as problem:
            raise self._unusable(f"{prefix}ssl.{store}.location", type(problem).__name__) from None

    def login(self, mechanism: str) -> None:
        options = {name: _bare(value) for name, value in _OPTION.findall(self.take("sasl.jaas.config"))}
        if mechanism == "OAUTHBEARER":
            prefix = "sasl.oauthbearer"
            found = {
                "tokenEndpoint": self.take(f"{prefix}.token.endpoint.url"),
                "clientId": self.take(f"{prefix}.client.credentials.client.id") or options.get("clientId", ""),
                "clientSecret": self.take(f"{prefix}.client.credentials.client.secret")
                or options.get("clientSecret", ""),
            }
            optional = {"scope": self.take(f"{prefix}.scope") or options.get("scope", "")}
            ca = self.secrets.get("ca", {}).get("ca.crt", b"").decode(errors="replace")
            optional["ca.crt"] = ca
        else:
            found, optional = {name: options.get(name, "") for name in ("username", "password")}, {}
        missing = [name for name, value in found.items() if not value]
        if missing:
            where = "sasl.oauthbearer.token.endpoint.url" if missing == ["tokenEndpoint"] else "sasl.jaas.config"
            raise self._unusable(where, f"gives no {missing[0]}", 'as in: ...LoginModule required username="..." ...;')
        held = found | {name: value for name, value in optional.items() if value}
        self.secrets["sasl"] = {name: value.encode() for name, value in held.items()}

    def refuse_the_rest(self) -> None:
        """Settings of other things (request.timeout.ms, say) are not ours to judge."""
        for name in sorted(self._given):
            if name.startswith(_MEANT) and name not in _NO_MATTER:
                raise self._unusable(name, "is not supported here", "remove it, or use a KafkaCluster with --cluster")

    def _unusable(self, name: str, problem: str, way_out: str = "") -> UnusableInputError:
        return UnusableInputError(f"{self.file}: {name}", problem, way_out)


def _bare(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
