"""The API server of a cluster over HTTP, as a service account."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any
from urllib.parse import urlencode

from allocator_agent.configuration import KubernetesOptions
from allocator_agent.errors import Misconfigured, SchedulerAway

_SECONDS = 30.0
Manifest = dict[str, Any]


class ApiRefused(SchedulerAway):
    """The API server answered with a refusal."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"Kubernetes refused ({status} {reason}): {message}")
        self.status, self.reason = status, reason


class Gone(ApiRefused):
    """A requested version is no longer kept, so that the caller must list again."""


class Conflict(ApiRefused):
    """An object was changed since it was read, so that the caller must read it again."""


class Absent(ApiRefused):
    """The object or its kind does not exist."""


class Api:
    """Requests with the token of the service account, which is read again for each as it rotates."""

    def __init__(self, options: KubernetesOptions, *, timeout: float = _SECONDS) -> None:
        self._options, self._timeout = options, timeout
        self._url = options.api.rstrip("/") or _in_cluster()
        self._context = None
        if self._url.startswith("https:"):
            try:
                self._context = ssl.create_default_context(cafile=str(options.ca_file))
            except OSError as error:
                raise Misconfigured(f"[kubernetes] ca_file cannot be read: {error}") from error

    def request(
        self,
        method: str,
        path: str,
        body: Manifest | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Manifest:
        """Return the answer's document. Raises `ApiRefused`, or `SchedulerAway` without an answer."""
        with self._opened(method, path, body, query or {}, self._timeout) as response:
            try:
                document: Manifest = json.loads(response.read())
            except (OSError, HTTPException, ValueError) as error:
                raise SchedulerAway(f"{self._url} broke off: {error}") from error
            return document

    def version(self) -> tuple[str, str]:
        """Return the version of the API server, and the `Date` header of its answer."""
        # Every account may read it, also one without any role.
        with self._opened("GET", "/version", None, {}, self._timeout) as response:
            try:
                version = json.loads(response.read()).get("gitVersion", "")
            except (OSError, HTTPException, ValueError, AttributeError) as error:
                raise SchedulerAway(f"{self._url} broke off: {error}") from error
            return str(version), response.headers.get("Date", "")

    def watch(self, path: str, version: str, *, seconds: int) -> Iterator[Manifest]:
        """Yield the events after a version, until the server ends the watch or the connection is cut."""
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        with self._opened("GET", path, None, query, seconds + self._timeout) as response:
            try:
                for line in response:
                    yield json.loads(line)
            except (OSError, HTTPException, ValueError):
                return  # cut, perhaps within a line: the next watch begins where this one ended

    @contextmanager
    def _opened(
        self,
        method: str,
        path: str,
        body: Manifest | None,
        query: Mapping[str, str],
        timeout: float,
    ) -> Iterator[Any]:
        url = f"{self._url}{path}" + (f"?{urlencode(query)}" if query else "")
        request = urllib.request.Request(url, method=method, headers=self._headers())
        if body is not None:
            request.data = json.dumps(body).encode()
            merges = "merge-patch+" if method == "PATCH" else ""
            request.add_header("Content-Type", f"application/{merges}json")
        try:
            response = urllib.request.urlopen(request, timeout=timeout, context=self._context)
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise api_refusal(refusal.code, _status(refusal)) from None
        except (OSError, HTTPException) as error:
            raise SchedulerAway(f"{self._url} does not answer: {error}") from error
        with response:
            yield response

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "allocator-agent"}
        try:
            token = self._options.token_file.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return headers  # behind `kubectl proxy`, which adds its own
        except (OSError, UnicodeError) as error:
            raise Misconfigured(f"[kubernetes] token_file cannot be read: {error}") from error
        return {**headers, "Authorization": f"Bearer {token}"}


def api_refusal(status: int, document: Mapping[str, Any]) -> ApiRefused:
    """Return the refusal that a `Status` document states."""
    kinds = {404: Absent, 409: Conflict, 410: Gone}
    kind = kinds.get(status, ApiRefused)
    return kind(status, str(document.get("reason", "")), str(document.get("message", "")))


def _status(refusal: urllib.error.HTTPError) -> Mapping[str, Any]:
    try:
        document = json.loads(refusal.read())
    except (OSError, HTTPException, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _in_cluster() -> str:
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    if not host:
        raise Misconfigured("set [kubernetes] api: the agent does not run in a pod of a cluster")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
