"""How a call of a client fails: the kind of failure, and the exceptions of reads and writes."""

from __future__ import annotations

from enum import StrEnum


class FailureKind(StrEnum):
    """Why a read or write failed, as far as the cure differs."""

    UNREACHABLE = "Unreachable"
    DESTINATION = "DestinationRefused"
    CREDENTIALS = "CredentialsUnusable"
    AUTHENTICATION = "AuthenticationFailed"
    AUTHORIZATION = "NotAuthorized"
    WRONG_PROTOCOL = "WrongProtocol"
    CERTIFICATE_UNTRUSTED = "CertificateUntrusted"
    CERTIFICATE_EXPIRED = "CertificateExpired"
    HOST_NAME = "HostNameMismatch"
    CLIENT_CERTIFICATE = "ClientCertificateRefused"
    TLS = "TlsFailed"
    UNSUPPORTED = "Unsupported"
    REFUSED = "Refused"
    OTHER = "Error"


class ClientFailure(Exception):
    """A client call that did not succeed. The message holds no secret."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(f"{kind.value}: {message}")
        self.kind = kind
        self.message = message


class ReadFailed(ClientFailure):
    """A read that did not answer in full."""


class WriteFailed(ClientFailure):
    """A write that was refused, or whose outcome is not known: look before you try again."""
