"""What a handler says about itself; OpenAPI is written from it (see api.openapi.schema)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

from api.contract.documents import NoFields
from policies.fields import Document

H = TypeVar("H", bound=Callable[..., Any])
Doc = type[Document]


@dataclass(frozen=True)
class Operation:
    """One method of one route: what it takes, what it answers, what it may refuse with.

    `kind` is the last word of the operation's id. `headers` are those of its success, `problems` the
    statuses of refusals beyond those that every route has. `other_answers` are documents
    that are no problems under another status, `other_rows` those of a list asked for otherwise.
    A `feed` is a list that clients follow without end: it gives `next_cursor` on every page. A
    `report` is one document, its rows as CSV and NDJSON, and a picture; `results` are that and a
    page. An `export` is a list as one stream. A `statement` is one document, its lines as CSV and
    NDJSON, and a page to be printed. A `rendering` is one document, or its objects in a scheduler's
    own language.
    """

    kind: str
    summary: str
    answer: Doc | None = None
    request: Doc | None = None
    status: HTTPStatus = HTTPStatus.OK
    headers: tuple[str, ...] = ()
    problems: tuple[int, ...] = ()
    if_match: str = ""
    paged: bool = False
    feed: bool = False
    report: bool = False
    results: bool = False
    export: bool = False
    statement: bool = False
    rendering: bool = False
    patched: bool = False
    many: bool = False
    named: bool = False
    claims: bool = False
    facts: bool = False
    media_types: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    other_answers: Mapping[HTTPStatus, Doc] = field(default_factory=dict)
    other_rows: Doc | None = None


def described(operation: Operation) -> Callable[[H], H]:
    """Attach a description to a handler."""

    def attach(handler: H) -> H:
        handler.operation = operation  # type: ignore[attr-defined]
        return handler

    return attach


def _described(*what: Any, **more: Any) -> Callable[[H], H]:
    return described(Operation(*what, **more))


def lists(
    answer: Doc, summary: str, *, problems: tuple[int, ...] = (), other_rows: Doc | None = None
) -> Callable[[H], H]:
    """GET of a list: pages of `answer`, as JSON, CSV or NDJSON."""
    return _described(
        "list",
        summary,
        answer,
        paged=True,
        headers=("Link", "X-Next-Cursor"),
        problems=problems,
        other_rows=other_rows,
    )


def feeds(answer: Doc, summary: str) -> Callable[[H], H]:
    """GET of a feed, followed by its cursor."""
    headers = ("Link", "X-Next-Cursor")
    return _described(
        "list", summary, answer, paged=True, feed=True, headers=headers, problems=(410,)
    )


def shows(
    answer: Doc,
    summary: str,
    *,
    headers: tuple[str, ...] = ("ETag",),
    problems: tuple[int, ...] = (),
) -> Callable[[H], H]:
    """GET of one object."""
    return _described("show", summary, answer, headers=headers, problems=problems)


def reports(answer: Doc, summary: str) -> Callable[[H], H]:
    """GET of a report: a document, its rows as CSV or NDJSON, or a picture."""
    return _described("show", summary, answer, report=True, problems=(404, 422))


def concludes(answer: Doc, summary: str) -> Callable[[H], H]:
    """GET of results: a document, its rows as CSV or NDJSON, a picture, or a page; 409 before."""
    return _described("show", summary, answer, results=True, problems=(404, 409))


def states(answer: Doc, summary: str) -> Callable[[H], H]:
    """GET of a statement: a document, its lines as CSV or NDJSON, or a page."""
    return _described("show", summary, answer, statement=True)


def renders(answer: Doc, summary: str) -> Callable[[H], H]:
    """GET of a rendering: a document, or its objects in the target's own language; 304 if known."""
    return _described(
        "show", summary, answer, rendering=True, headers=("ETag",), problems=(409, 413)
    )


def exports(answer: Doc, summary: str, *, ends: bool = False) -> Callable[[H], H]:
    """GET of a whole list as one stream of CSV or of a JSON document a line.

    One that `ends` gets no more rows; others say where to go on.
    """
    headers = () if ends else ("X-Next-Cursor",)
    return _described("export", summary, answer, export=True, headers=headers)


def creates(
    request: Doc,
    answer: Doc,
    summary: str,
    *,
    pool: bool = False,
    bulk: bool = False,
    named: bool = False,
    headers: tuple[str, ...] = ("Location", "ETag"),
) -> Callable[[H], H]:
    """POST that makes an object (201), or with `bulk` many, of which slugs are told if `named`."""
    return _described(
        "create",
        summary,
        answer,
        request,
        HTTPStatus.CREATED,
        headers=(*headers, "Idempotency-Replayed", *_generation(pool)),
        problems=(409, 411, 413, 415, 422),
        many=bulk,
        named=named,
        claims=True,
    )


def updates(request: Doc, answer: Doc, summary: str, *, pool: bool = False) -> Callable[[H], H]:
    """PATCH, a merge-patch of what was read at the version in If-Match."""
    return _described(
        "update",
        summary,
        answer,
        request,
        headers=("ETag", *_generation(pool)),
        problems=(409, 411, 412, 413, 415, 422, 428),
        if_match="required",
        patched=True,
    )


def puts(request: Doc, answer: Doc, summary: str) -> Callable[[H], H]:
    """PUT, which makes the object (201) or replaces the version in If-Match (200)."""
    return _described(
        "put",
        summary,
        answer,
        request,
        headers=("ETag", "Location", "Pool-Generation"),
        problems=(409, 411, 412, 413, 415, 422, 428),
        if_match="to replace",
    )


def replaces(request: Doc, answer: Doc, summary: str) -> Callable[[H], H]:
    """PUT of what the caller alone writes, the newest of which counts (200)."""
    return _described("replace", summary, answer, request, problems=(409, 411, 413, 415, 422))


def retires(summary: str, *, pool: bool = False) -> Callable[[H], H]:
    """DELETE, which keeps the history (204)."""
    return _described(
        "retire",
        summary,
        status=HTTPStatus.NO_CONTENT,
        headers=_generation(pool),
        problems=(409, 412, 428),
        if_match="required",
    )


def acts(answer: Doc, summary: str) -> Callable[[H], H]:
    """POST of an action on an object, which it answers."""
    return _described(
        "act",
        summary,
        answer,
        NoFields,
        headers=("ETag", "Idempotency-Replayed", "Pool-Generation"),
        problems=(409, 411, 412, 413, 415, 422),
        if_match="optional",
        claims=True,
    )


def accepts(request: Doc, answer: Doc, summary: str, *, pool: bool = True) -> Callable[[H], H]:
    """POST of work that is done later (202)."""
    return _described(
        "request",
        summary,
        answer,
        request,
        HTTPStatus.ACCEPTED,
        headers=("Location", "Retry-After", "Idempotency-Replayed", *_generation(pool)),
        problems=(409, 411, 413, 415, 422),
        claims=True,
    )


def records(request: Doc, answer: Doc, summary: str) -> Callable[[H], H]:
    """POST of one or many facts, each stored once; answers how many were new (200)."""
    return _described(
        "record",
        summary,
        answer,
        request,
        headers=("Idempotency-Replayed",),
        problems=(409, 411, 413, 415, 422),
        claims=True,
        facts=True,
    )


def computes(
    request: Doc, answer: Doc, summary: str, *, problems: tuple[int, ...]
) -> Callable[[H], H]:
    """POST that stores nothing and answers what it computed (200)."""
    return _described("compute", summary, answer, request, problems=(411, 413, 415, 422, *problems))


def _generation(pool: bool) -> tuple[str, ...]:
    return ("Pool-Generation",) if pool else ()
