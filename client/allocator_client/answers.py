"""Responses of the service, which are a document, the rows of a list or a file."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import httpx

from allocator_client.errors import NotTheService

T = TypeVar("T")


def decode_json(response: httpx.Response) -> Any:
    """Return the JSON of a response. Raises `NotTheService` if it is not JSON."""
    try:
        return response.json()
    except ValueError as error:
        host = response.url.copy_with(raw_path=b"/")
        raise NotTheService(
            f"{host} is not the allocation service: what it answered is no JSON."
        ) from error


@dataclass(frozen=True)
class Answer(Generic[T]):
    """A document of the service, with the headers of its response."""

    body: T
    status: int
    headers: httpx.Headers

    @property
    def etag(self) -> str | None:
        """Version of the object.

        Pass it as `if_match` to change exactly this version.
        """
        tag: str | None = self.headers.get("ETag")
        return tag

    @property
    def generation(self) -> int | None:
        """Number of the pool's change.

        A decision of at least this generation includes the change.
        """
        number = self.headers.get("Pool-Generation")
        return None if number is None else int(number)

    @property
    def replayed(self) -> bool:
        """True for the stored response to an earlier request with the same idempotency key."""
        return bool(self.headers.get("Idempotency-Replayed") == "true")

    @property
    def request_id(self) -> str:
        return str(self.headers.get("X-Request-Id", ""))


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list, with the cursor of the next page."""

    rows: list[T]
    cursor: str | None
    last: bool


class Rows(Generic[T]):
    """Rows of a list, fetched page by page during the iteration.

    `cursor` belongs to the last fetched page. That of a feed (ledger entries, events) can be stored and
    passed as `after` later, even if the feed was read to its end.
    """

    def __init__(
        self, fetch: Callable[[str, str | None], httpx.Response], cursor: str | None
    ) -> None:
        self._fetch = fetch
        self.cursor = cursor

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page.rows

    def pages(self) -> Iterator[Page[T]]:
        """Iterate over the pages of the list."""
        for response in self._responses("json"):
            body = decode_json(response)
            if not isinstance(body, dict) or "results" not in body:
                raise NotTheService(
                    f"{response.url} is not the allocation service: it answered no list."
                )
            yield Page(body["results"], self.cursor, last=body["next"] is None)

    def text(self, format: Literal["csv", "ndjson"]) -> Iterator[str]:
        """Iterate over the pages of the list as CSV, with one header line in all, or as NDJSON."""
        for number, response in enumerate(self._responses(format)):
            text = response.text
            if format == "csv" and number:
                # Each page of CSV has a header line of its own.
                text = text.partition("\n")[2]
            if text:
                yield text

    def _responses(self, format: str) -> Iterator[httpx.Response]:
        """Fetch the pages by their cursors. The URL in `next` may name another host and is not used."""
        more = True
        while more:
            response = self._fetch(format, self.cursor)
            # At its end a feed keeps the last cursor, from which it can be continued.
            self.cursor = response.headers.get("X-Next-Cursor", self.cursor)
            more = "next" in response.links
            yield response


class Download:
    """A file of the service, fetched in pieces when it is read."""

    def __init__(self, send: Callable[[], AbstractContextManager[httpx.Response]]) -> None:
        self._send = send
        self.headers = httpx.Headers()

    @contextmanager
    def open(self) -> Iterator[Iterator[bytes]]:
        """Open the file and return an iterator over its pieces, which also sets `headers`.

        Raises `Unreachable` if the file ends before it is complete.
        """
        with self._send() as response:
            self.headers = response.headers
            yield response.iter_bytes()

    def read(self) -> bytes:
        """Read the whole file."""
        with self.open() as pieces:
            return b"".join(pieces)
