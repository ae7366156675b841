"""aiohttp: the session over which Kubernetes is watched.

A watch whose resourceVersion is too old is answered 410 and has to begin anew (Kubernetes API concepts, "410 Gone
responses"). The API server mostly tells it by an event within the watch, which kopf knows; as the status of the answer,
kopf takes it for the end of the operator.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from http import HTTPStatus

import aiohttp


def watch_session(trust: ssl.SSLContext, headers: Mapping[str, str]) -> aiohttp.ClientSession:
    """To be made where an event loop runs. Whatever is answered 410 twice is a ClientConnectionError, as a line that
    broke is, and so worth another try."""
    connector = aiohttp.TCPConnector(limit=0, ssl=trust)  # a watch keeps its connection
    return aiohttp.ClientSession(connector=connector, headers=headers, middlewares=(_anew,))


async def _anew(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    answer = await send(request)
    if answer.status == HTTPStatus.GONE and "resourceVersion" in request.url.query:
        answer.close()
        # Without one a watch begins at the present, and tells first what is there.
        request.url = request.url.without_query_params("resourceVersion")
        answer = await send(request)
    if answer.status == HTTPStatus.GONE:
        answer.close()
        raise aiohttp.ClientConnectionError("answered 410 Gone")
    return answer
