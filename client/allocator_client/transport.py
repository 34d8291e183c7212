"""Transport of requests, with the key, timeouts, retries and errors."""

import json
import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from allocator_client.answers import Answer, Download, Rows, decode_json
from allocator_client.errors import Changed, Mistake, NotTheService, Problem, Unreachable

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 8.0
_IN_FLIGHT = "idempotency.in_flight"
_REFUSED_FOR_NOW = (429, 503)
_GATEWAY = (502, 504)  # the request may have arrived
# Without a connection nothing was executed, so that even a change can be sent again.
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_KINDS = {
    "json": "application/json",
    "csv": "text/csv",
    "ndjson": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
    "html": "text/html",
    "svg": "image/svg+xml",
    "txt": "text/plain",
    "yaml": "application/yaml",
}

try:
    VERSION = version("allocator-client")
except PackageNotFoundError:  # run from its source
    VERSION = "0"


class Transport:
    """A connection to the service.

    Parameters
    ----------
    url : str
        Address of the service, such as `https://allocator.example.org`, with any path before `/api/v1/`.
    key : str, optional
        The API key.
    timeout : float
        Seconds to wait for a connection, and for each piece of an answer.
    attempts : int
        Most times that a request is sent. Every GET is retried, every POST that writes (under one
        `Idempotency-Key`, so that it is executed once), and every evaluation, which writes nothing.
        PATCH, PUT and DELETE are retried only if the service cannot have executed them, because it was
        not reached or answered 429 or 503.
    patience : float
        Longest `Retry-After` to wait for, in seconds. After a longer one the refusal is raised at once.
    sleep : callable
        Called with the seconds to wait.

    Raises
    ------
    ValueError
        For an invalid address or key.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 30.0,
        attempts: int = 5,
        patience: float = 60.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = service_address(url)
        headers = {"User-Agent": f"allocator-client/{VERSION}", "Accept": "application/json"}
        if key is not None:
            # A line end that was copied along would otherwise fail deep in HTTP or begin a header.
            if not (key.isascii() and key.isprintable() and key.strip() and " " not in key):
                raise ValueError("This is not an API key: it has spaces or special characters.")
            headers["Authorization"] = f"Bearer {key}"
        self._attempts, self._patience, self._sleep = attempts, patience, sleep
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # The operations call these methods with complete paths, in which `path_part` quoted the parameters.

    def _read(self, path: str, query: Mapping[str, object] | None = None) -> Answer[Any]:
        return _answer(self._send("GET", path, query))

    def _text(self, path: str) -> Answer[str]:
        response = self._send("GET", path, headers={"Accept": "text/plain"}, kind="text/plain")
        return Answer(response.text, response.status_code, response.headers)

    def _rows(self, path: str, query: Mapping[str, object], cursor_name: str) -> Rows[Any]:
        def fetch(format: str, cursor: str | None) -> httpx.Response:
            page = {**query, cursor_name: cursor}
            if format == "json":
                return self._send("GET", path, page)
            return self._send("GET", path, {**page, "format": format}, kind=_KINDS[format])

        start = query.get(cursor_name)
        return Rows(fetch, None if start is None else str(start))

    def _file(self, path: str, query: Mapping[str, object]) -> Download:
        return Download(lambda: self._stream(path, query))

    def _post(
        self,
        path: str,
        body: object,
        key: str | None,
        if_match: str | None = None,
        query: Mapping[str, object] | None = None,
    ) -> Answer[Any]:
        """Send a POST that writes, which the service executes once for any number of attempts."""
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        if if_match is not None:
            headers["If-Match"] = if_match
        return _answer(self._send("POST", path, query, body=body, headers=headers, keyed=True))

    def _compute(self, path: str, body: object) -> Answer[Any]:
        """Send a POST that writes nothing."""
        return _answer(self._send("POST", path, body=body, repeatable=True))

    def _change(
        self, method: str, path: str, body: object = None, if_match: str | None = None
    ) -> Answer[Any]:
        """Send a PATCH, PUT or DELETE of the version `if_match`, by default the current version."""
        if if_match is None:
            try:
                # If another client changes the object after this read, the change is refused with
                # 412.
                if_match = self._read(path).etag
            except Problem as problem:
                # A PUT may create the object, which then has no version to name.
                if method != "PUT" or problem.status != 404:
                    raise
        headers = {} if if_match is None else {"If-Match": if_match}
        return _answer(self._send(method, path, body=body, headers=headers, repeatable=False))

    def _put(self, path: str, body: object) -> Answer[Any]:
        """Send a PUT to an object without versions."""
        return _answer(self._send("PUT", path, body=body, repeatable=False))

    @contextmanager
    def _stream(self, path: str, query: Mapping[str, object]) -> Iterator[httpx.Response]:
        kind = _KINDS[str(query["format"])]
        response = self._send("GET", path, query, kind=kind, stream=True)
        try:
            yield response
        except httpx.RequestError as error:
            raise Unreachable(
                f"{self.url} ended the file too early: {_error_text(error)}"
            ) from error
        finally:
            response.close()

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        *,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
        keyed: bool = False,
        kind: str = "application/json",
        stream: bool = False,
    ) -> httpx.Response:
        """Send a request with retries. Raises `Problem` or `Unreachable`."""
        content, sent = _content(body)
        request = self._http.build_request(
            method, path, params=_query(query), content=content, headers={**sent, **(headers or {})}
        )
        repeatable = method == "GET" or keyed if repeatable is None else repeatable
        for attempt in range(1, self._attempts + 1):
            try:
                return self._attempt(request, kind, stream=stream)
            except (Problem, Unreachable) as error:
                # `lost`: the request may have been executed although its answer is missing.
                again = error.temporary and (repeatable or not error.lost)
                # An earlier attempt is still served: under the same key, the next one gets its answer.
                again = again or (keyed and isinstance(error, Problem) and error.code == _IN_FLIGHT)
                pause = _pause(attempt, error)
                if not again or attempt == self._attempts or pause > self._patience:
                    raise
            self._sleep(pause)
        raise ValueError("attempts is at least 1")

    def _attempt(self, request: httpx.Request, kind: str, *, stream: bool) -> httpx.Response:
        """Send a request once. Raises `Problem` or `Unreachable`."""
        try:
            response = self._http.send(request, stream=stream)
            if _is_documented(response, kind):
                return response
            # A stream has read no body yet, and the reason of a refusal is there.
            response.read()
        except _NEVER_SENT as error:
            raise Unreachable(f"{self.url} cannot be reached: {_error_text(error)}") from error
        except httpx.RequestError as error:
            raise Unreachable(
                f"{self.url} gave no answer: {_error_text(error)}", lost=True
            ) from error
        raise self._refusal(response)

    def _refusal(self, response: httpx.Response) -> Problem | Unreachable:
        status, kind = response.status_code, _kind(response)
        document = _document(response) if kind == "application/problem+json" else None
        if document is not None:
            return (Changed if status == 412 else Problem)(
                status=status,
                code=document.get("code", ""),
                detail=document.get("detail", ""),
                errors=[_mistake(each) for each in document.get("errors", ())],
                request_id=document.get("request_id", ""),
                retry_after=_retry_after(response),
            )
        if status in (*_GATEWAY, *_REFUSED_FOR_NOW):
            reason = f"{status} {response.reason_phrase}".strip()
            return Unreachable(
                f"{self.url} is overloaded or down: {reason}", lost=status in _GATEWAY
            )
        # Redirects are not followed: the address is wrong, or a proxy asks for a sign-in.
        where = f", to {response.headers.get('Location')}" if response.is_redirect else ""
        return NotTheService(
            f"{self.url} is not the allocation service: it answered {status} with "
            f"{kind or 'no content'}{where}. Check the address."
        )


def service_address(url: str) -> str:
    """Return the address without `/api/v1`. Raises `ValueError` for an invalid address."""
    url = url.strip().rstrip("/").removesuffix("/api/v1")
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{url!r} is not an address: {error}") from error
    # Errors show the address, which must therefore hold no secret.
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise ValueError("An address has no user, query or fragment: the key goes apart.")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"{url!r} is not an address such as https://allocator.example.org")
    return url


def path_part(value: str) -> str:
    """Quote a value as one segment of a path. Raises `ValueError` if it cannot be one."""
    # Dots are resolved before a request is sent, which would then reach another path.
    if value in ("", ".", ".."):
        raise ValueError(f"{value!r} names nothing")
    return quote(value, safe="")


def _query(query: Mapping[str, object] | None) -> dict[str, str]:
    return {name: _value(value) for name, value in (query or {}).items() if value is not None}


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone: pass one with an offset, such as UTC")
        return value.isoformat()
    return str(value)


def _content(body: object) -> tuple[bytes | None, dict[str, str]]:
    """Return the bytes of a body and its content type, which for a `str` is CSV."""
    if body is None:
        return None, {}
    if isinstance(body, str):
        return body.encode(), {"Content-Type": "text/csv"}
    # Python writes NaN by default, which is not JSON.
    return json.dumps(body, allow_nan=False).encode(), {"Content-Type": "application/json"}


def _answer(response: httpx.Response) -> Answer[Any]:
    body = decode_json(response) if response.content else None
    return Answer(body, response.status_code, response.headers)


def _is_documented(response: httpx.Response, kind: str) -> bool:
    """Return whether this is the requested document, not a refusal or a page of another web server.

    `/readyz` reports failed checks with 503, which is also a documented response.
    """
    status = response.status_code
    expected = status in (200, 201, 202) or (
        status == 503 and response.url.path.endswith("/readyz")
    )
    return status == 204 or (expected and _kind(response) == kind)


def _kind(response: httpx.Response) -> str:
    return str(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()


def _document(response: httpx.Response) -> dict[str, Any] | None:
    """Return the JSON object of a refusal, or None if it is not one."""
    try:
        document = response.json()
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _mistake(document: Mapping[str, Any]) -> Mistake:
    return Mistake(*(str(document.get(name, "")) for name in ("pointer", "code", "detail")))


def _pause(attempt: int, error: Problem | Unreachable) -> float:
    """Return the seconds until the next attempt.

    They are the service's `Retry-After`, or otherwise an exponential backoff with jitter.
    """
    if isinstance(error, Problem) and error.retry_after is not None:
        return error.retry_after
    longest = min(_FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1), _LONGEST_PAUSE_SECONDS)
    # Clients that failed together must not all come back at the same instant.
    return longest * random.uniform(0.5, 1)  # noqa: S311 - jitter, not a secret


def _retry_after(response: httpx.Response) -> float | None:
    text = response.headers.get("Retry-After", "")
    # The header may also be a date, which the client's clock may misread: then the backoff holds.
    return float(text) if text.isdecimal() else None


def _error_text(error: Exception) -> str:
    """Return the text of an error of httpx, or its class if it has none."""
    return str(error) or type(error).__name__
