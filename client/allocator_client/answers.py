"""What requests are answered with: one document, the rows of a list, or a file."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import httpx

from allocator_client.errors import NotTheService

T = TypeVar("T")


def decoded(response: httpx.Response) -> Any:
    """The JSON of an answer. Raises `NotTheService` where it is none."""
    try:
        return response.json()
    except ValueError as error:
        host = response.url.copy_with(raw_path=b"/")
        raise NotTheService(
            f"{host} is not the allocation service: what it answered is no JSON."
        ) from error


@dataclass(frozen=True)
class Answer(Generic[T]):
    """A document of the service, and what the headers say of it."""

    body: T
    status: int
    headers: httpx.Headers

    @property
    def etag(self) -> str | None:
        """The version of the object: pass it as `if_match` to change what was read."""
        tag: str | None = self.headers.get("ETag")
        return tag

    @property
    def generation(self) -> int | None:
        """The number of the pool's change: a decision of at least this generation includes it."""
        number = self.headers.get("Pool-Generation")
        return None if number is None else int(number)

    @property
    def replayed(self) -> bool:
        """Whether this is the answer of an earlier request with the same idempotency key."""
        return bool(self.headers.get("Idempotency-Replayed") == "true")

    @property
    def request_id(self) -> str:
        return str(self.headers.get("X-Request-Id", ""))


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some rows of a list, and the cursor of what comes after them."""

    rows: list[T]
    cursor: str | None
    last: bool


class Rows(Generic[T]):
    """The rows of a list, fetched page by page while they are iterated over.

    `cursor` is that of the last page fetched: of a feed (ledger entries, events) it can be kept and
    passed as `after` another day, also once the feed was read to its end.
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
        """The list page by page."""
        for response in self._responses("json"):
            body = decoded(response)
            if not isinstance(body, dict) or "results" not in body:
                raise NotTheService(
                    f"{response.url} is not the allocation service: it answered no list."
                )
            yield Page(body["results"], self.cursor, last=body["next"] is None)

    def text(self, format: Literal["csv", "ndjson"]) -> Iterator[str]:
        """The list as CSV (one header, whatever the number of pages) or NDJSON, a page at a time."""
        for number, response in enumerate(self._responses(format)):
            text = response.text
            if format == "csv" and number:
                text = text.partition("\n")[2]
            if text:
                yield text

    def _responses(self, format: str) -> Iterator[httpx.Response]:
        """Go from cursor to cursor. The URL in `next` is not followed: it may name another host."""
        more = True
        while more:
            response = self._fetch(format, self.cursor)
            self.cursor = response.headers.get("X-Next-Cursor", self.cursor)
            more = "next" in response.links
            yield response


class Download:
    """A file of the service; nothing is fetched before it is read, and never all of it at once."""

    def __init__(self, send: Callable[[], AbstractContextManager[httpx.Response]]) -> None:
        self._send = send
        self.headers = httpx.Headers()

    @contextmanager
    def open(self) -> Iterator[Iterator[bytes]]:
        """The bytes in pieces; `headers` are there from then on.

        Raises `Unreachable` where the file ends before it is complete.
        """
        with self._send() as response:
            self.headers = response.headers
            yield response.iter_bytes()

    def read(self) -> bytes:
        """All of it."""
        with self.open() as pieces:
            return b"".join(pieces)
