"""A small client of the service's public REST interface."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any

from launcher.console import StepFailed

_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """Response of the service.

    `body` is the decoded JSON, or None without content.
    """

    status: int
    headers: Message
    body: Any


class Client:
    """Client of the service at `url`, with an API key."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self._url = url
        self._headers = {"Accept": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"

    def get(self, path: str) -> Answer:
        """GET a path. Raises `StepFailed` for an error status."""
        return self._require_success("GET", path, None)

    def post(self, path: str, body: object) -> Answer:
        """POST a JSON body. Raises `StepFailed` for an error status."""
        return self._require_success("POST", path, body)

    def patch(self, path: str, body: object) -> Answer:
        """PATCH the current version of an object. Raises `StepFailed` for an error status."""
        current = self.get(path).headers["ETag"]
        return self._require_success("PATCH", path, body, {"If-Match": current})

    def pages(self, path: str) -> list[Any]:
        """Return the results of all pages of a list."""
        results: list[Any] = []
        following: str | None = path
        while following:
            page = self.get(following).body
            results += page["results"]
            following = page["next"] and page["next"].removeprefix(self._url)
        return results

    def request(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request and return the response, including error responses.

        Raises `OSError` if there is no response.
        """
        request = urllib.request.Request(
            self._url + path, method=method, headers={**self._headers, **(headers or {})}
        )
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
                return _answer(response.status, response.headers, response.read())
        except urllib.error.HTTPError as refusal:
            with refusal:
                return _answer(refusal.code, refusal.headers, refusal.read())

    def _require_success(
        self, method: str, path: str, body: object, headers: Mapping[str, str] | None = None
    ) -> Answer:
        answer = self.request(method, path, body, headers)
        if answer.status >= 400:
            raise StepFailed(
                f"{method} {path} was answered with {answer.status}",
                "read the service's log, and the answer above",
                log=json.dumps(answer.body, indent=1),
            )
        return answer


def _answer(status: int, headers: Message, content: bytes) -> Answer:
    try:
        return Answer(status, headers, json.loads(content) if content else None)
    except ValueError:
        return Answer(status, headers, content.decode(errors="replace"))
