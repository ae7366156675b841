"""kubernetes: the API server. Objects go in and out as plain dictionaries, errors as `ApiFailure` with a status."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from importlib import import_module
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import urllib3
import yaml

from kafka_medic.cluster.clock import Skew, measured


class _AtFirstCall(ModuleType):
    """Stands for a module while another one imports functions and classes of it."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            return getattr(import_module(self.__name__), name)(*args, **kwargs)

        return call


@contextmanager
def _imported_at_first_call(*names: str) -> Iterator[None]:
    stand_ins = {name: _AtFirstCall(name) for name in names if name not in sys.modules}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name in stand_ins:
            del sys.modules[name]


_OTHERS = ("dynamic", "informer", "leaderelection", "stream", "watch")
# Only the refresh of an OIDC token, streams and typed models call these. They take a third of the client's start.
with _imported_at_first_call(
    "dateutil.parser", "oauthlib.oauth2", "requests_oauthlib", *(f"kubernetes.{name}" for name in _OTHERS)
):
    from kubernetes import client, config
    from kubernetes.client.exceptions import ApiException
    from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION, KubeConfigLoader, KubeConfigMerger

GROUP = "kafkamedic.dev"
VERSION = "v1alpha1"
Object = dict[str, Any]
TRIES = urllib3.Retry(total=3, connect=0)
"""A GET or PUT whose connection breaks is sent again. A connection that cannot be made is not tried again: a POST or
PATCH would be sent long after the caller's last check."""
_AT_MOST: ContextVar[float] = ContextVar("_AT_MOST", default=float("inf"))
REMEMBERED = 60.0
"""Seconds for which a comparison of the clocks counts: either may be set anew."""
CREDENTIALS_SECONDS = 10.0
"""Between two looks whether the token is to be read again. A token lives for ten minutes or more."""


class ApiFailure(Exception):
    """The API server refused or did not answer. `status` is the HTTP status, 0 when there was none."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status or 'no answer'}: {message}")
        self.status = status
        self.message = message

    @property
    def conflict(self) -> bool:
        return self.status == 409

    @property
    def not_found(self) -> bool:
        return self.status == 404


class KubeconfigError(Exception):
    """A kubeconfig, or the context asked of it, that cannot be used. The message holds nothing of what is in it."""


@contextmanager
def answered_within(seconds: float) -> Iterator[None]:
    """Requests of this thread wait so long for their answers, and never longer than their client does."""
    before = _AT_MOST.set(seconds)
    try:
        yield
    finally:
        _AT_MOST.reset(before)


WRITER, PERSONS = "kafka-medic/1", "kubectl-kafka-medic/1"


class KubernetesApi:
    """Blocking access with a deadline per call. Thread-safe."""

    def __init__(
        self, timeout_seconds: float = 10.0, connected: client.ApiClient | None = None, *, once: bool = False
    ) -> None:
        """As the operator, or whoever runs its code: the Pod's own account, else the kubeconfig's current context.
        `once`: no request is sent again, so that the timeout bounds the whole call."""
        if connected is None:
            try:
                config.load_incluster_config()  # type: ignore[no-untyped-call]
            except config.ConfigException:
                config.load_kube_config()  # type: ignore[no-untyped-call]
            configuration = client.Configuration.get_default_copy()
            configuration.retries = urllib3.Retry(total=False) if once else TRIES
            connected = client.ApiClient(configuration)
        # The API server names the writer of a field after what comes before the slash (metadata.managedFields).
        connected.user_agent = WRITER
        _refresh_seldom(connected.configuration)
        self._client = connected
        self._timeout = timeout_seconds
        self._lock = threading.Lock()
        self._compared: tuple[Skew, float] | None = None

    @classmethod
    def of_person(
        cls, kubeconfig: str | None = None, context: str | None = None, timeout_seconds: float = 15.0
    ) -> tuple[KubernetesApi, str]:
        """A person's own access, and the namespace that the context names. `kubeconfig` None: KUBECONFIG, else
        ~/.kube/config. Never a Pod's account: who approves is a person. Raises KubeconfigError."""
        configuration = client.Configuration()
        try:
            # Parsed once: without YAML's native part, a long file takes longer than the rest of a command.
            merged = KubeConfigMerger(kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION).config  # type: ignore[no-untyped-call]
            if merged is None:
                raise KubeconfigError("cannot be used: no configuration found")
            known = [c["name"] for c in merged["contexts"]]
            if context and context not in known:
                raise KubeconfigError(f"has no context {context!r}; it has {', '.join(known)}")
            loader = KubeConfigLoader(merged, context or None, config_base_path=None)  # type: ignore[no-untyped-call]
            loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
            namespace = loader.current_context["context"].get("namespace") or "default"
        except config.ConfigException as problem:
            raise KubeconfigError(f"cannot be used: {problem}") from None
        except yaml.YAMLError:
            raise KubeconfigError("is not YAML") from None
        except OSError as problem:
            raise KubeconfigError(f"cannot be used: {problem.strerror or type(problem).__name__}") from None
        except (AttributeError, LookupError, TypeError, ValueError) as problem:
            raise KubeconfigError(f"is not a kubeconfig ({type(problem).__name__})") from None
        if not configuration.verify_ssl:  # the kubeconfig says so; a warning at each request would say it again
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        made = cls(timeout_seconds, client.ApiClient(configuration))
        made._client.user_agent = PERSONS
        return made, str(namespace)

    def addresses(self) -> frozenset[str]:
        """Of the API server, as this client reaches it; empty where its name cannot be resolved."""
        url = urlsplit(self._client.configuration.host)
        try:
            found = socket.getaddrinfo(url.hostname, url.port or 443, type=socket.SOCK_STREAM)
        except OSError:
            return frozenset()
        return frozenset(str(address[0]) for *_, address in found)

    @property
    def skew(self) -> Skew | None:
        """How far the API server's clock is ahead, by its last answers; None where none of them was dated."""
        compared = self._compared
        return compared[0] if compared is not None and time.monotonic() - compared[1] <= REMEMBERED else None

    def _compare(self, date: str | None, sent: datetime, seconds: float) -> None:
        """Keeps the narrowest comparison, until a later one contradicts it."""
        found, now = measured(date, sent, sent + timedelta(seconds=seconds)), time.monotonic()
        if found is None:
            return
        with self._lock:
            kept = self.skew
            if kept is None or found.width <= kept.width or not found.agrees(kept):
                self._compared = (found, now)

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Object:
        return self._call("GET", path, query=query)

    def create(self, path: str, body: Object) -> Object:
        return self._call("POST", path, body=body)

    def replace(self, path: str, body: Object) -> Object:
        """PUT: with metadata.resourceVersion in the body this is a compare-and-set; a lost race is `conflict`."""
        return self._call("PUT", path, body=body)

    def merge(self, path: str, body: Object) -> Object:
        """PATCH (JSON merge patch, RFC 7386): a metadata.resourceVersion in it makes it a compare-and-set too."""
        return self._call("PATCH", path, body=body, content="application/merge-patch+json")

    def list(self, path: str, query: Mapping[str, str] | None = None) -> list[Object]:
        """All items, page by page."""
        items: list[Object] = []
        wanted = {"limit": "500", **(query or {})}
        while True:
            page = self.get(path, wanted)
            items += page.get("items") or []
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return items
            wanted["continue"] = token

    def _call(
        self,
        verb: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content: str = "application/json",
    ) -> Object:
        request = self._client.param_serialize(
            verb,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json", "Content-Type": content},
            body=body,
            auth_settings=["BearerToken"],
        )
        sent, began = datetime.now(UTC), time.monotonic()
        try:
            answer = self._client.call_api(*request, _request_timeout=min(self._timeout, _AT_MOST.get()))
            self._compare(answer.headers.get("Date"), sent, time.monotonic() - began)
            status, content = answer.status, answer.read()  # type: ignore[no-untyped-call]
        except ApiException as problem:
            raise ApiFailure(problem.status or 0, str(problem.reason)) from None
        except (urllib3.exceptions.HTTPError, OSError) as problem:
            host = self._client.configuration.host
            raise ApiFailure(0, f"the API server at {host} did not answer: {_reason(problem)}") from None
        try:
            data = json.loads(content)
        except ValueError:
            raise ApiFailure(status if status >= 400 else 0, f"{verb} {path}: the answer is not JSON") from None
        if not isinstance(data, dict):
            raise ApiFailure(0, f"{verb} {path}: the answer is not an object")
        if not 200 <= status < 300:
            raise ApiFailure(status, str(data.get("message") or data)[:1000])
        return data


def _refresh_seldom(configuration: client.Configuration) -> None:
    """The client sets its whole configuration anew before each request, which costs a third of the request."""
    refresh, again_at = configuration.refresh_api_key_hook, 0.0
    if refresh is None:
        return

    def hook(used: client.Configuration) -> None:
        nonlocal again_at
        if time.monotonic() >= again_at:
            refresh(used)
            used.refresh_api_key_hook = hook  # the client's own one has replaced it
            again_at = time.monotonic() + CREDENTIALS_SECONDS

    configuration.refresh_api_key_hook = hook


def _reason(problem: Exception) -> str:
    """Of a request without an answer, in the words that a person searches for: urllib3 wraps them twice."""
    inner = getattr(problem, "reason", None)
    if isinstance(problem, urllib3.exceptions.MaxRetryError) and inner is not None:
        return _reason(inner)
    cause = problem.__cause__ or problem.__context__
    if isinstance(problem, urllib3.exceptions.HTTPError) and isinstance(cause, OSError):
        problem = cause
    if isinstance(problem, TimeoutError | urllib3.exceptions.TimeoutError):
        return "no answer in time"
    return getattr(problem, "strerror", None) or f"{type(problem).__name__}: {problem}"


def custom_path(plural: str, namespace: str | None = None, name: str | None = None, sub: str | None = None) -> str:
    """The path of our own resources."""
    parts = [f"/apis/{GROUP}/{VERSION}"]
    if namespace:
        parts.append(f"namespaces/{namespace}")
    parts.append(plural)
    if name:
        parts.append(name)
    if sub:
        parts.append(sub)
    return "/".join(parts)
