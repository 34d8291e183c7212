"""Descriptions of handlers, from which OpenAPI and the formats of answers are made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

from api.contract.answers import (
    EXPORT,
    NO_CONTENT,
    RENDERING,
    REPORT,
    RESULTS,
    STATEMENT,
    Answer,
    Body,
    BulkBody,
    CreatedAnswer,
    PageAnswer,
    PatchBody,
)
from api.contract.documents import NoFields
from policies.fields import Document

H = TypeVar("H", bound=Callable[..., Any])
Doc = type[Document]


@dataclass(frozen=True)
class Operation:
    """One method of one route.

    `kind` is the last word of the operation's id. `status` and `headers` are those of its success,
    `problems` the statuses of refusals beyond those that every route has. `other_answers` are
    documents under another status that are not problems. `if_match` is `required`, `optional`, `to
    replace` or empty. A `repeatable` operation takes an `Idempotency-Key`. A `conditional` one takes
    `If-None-Match`, and is 304 to a caller that has the answer.
    """

    kind: str
    summary: str
    answer: Answer = NO_CONTENT
    body: Body | None = None
    status: HTTPStatus = HTTPStatus.OK
    headers: tuple[str, ...] = ()
    problems: tuple[int, ...] = ()
    if_match: str = ""
    repeatable: bool = False
    conditional: bool = False
    other_answers: Mapping[HTTPStatus, Doc] = field(default_factory=dict)


def describe(operation: Operation) -> Callable[[H], H]:
    """Attach a description to a handler."""

    def attach(handler: H) -> H:
        # On the handler, so that a view's methods differ and subclasses inherit what they do not
        # replace.
        handler.operation = operation  # type: ignore[attr-defined]
        return handler

    return attach


def _describe(*what: Any, **more: Any) -> Callable[[H], H]:
    return describe(Operation(*what, **more))


def lists(
    answer: Doc, summary: str, *, problems: tuple[int, ...] = (), other_rows: Doc | None = None
) -> Callable[[H], H]:
    """GET of a list, in pages."""
    return _describe(
        "list",
        summary,
        PageAnswer(answer, other_rows=other_rows),
        headers=("Link", "X-Next-Cursor"),
        problems=problems,
    )


def feeds(answer: Doc, summary: str) -> Callable[[H], H]:
    """GET of a feed, followed by its cursor."""
    headers = ("Link", "X-Next-Cursor")
    return _describe(
        "list", summary, PageAnswer(answer, feed=True), headers=headers, problems=(410,)
    )


def shows(
    answer: Doc,
    summary: str,
    *,
    headers: tuple[str, ...] = ("ETag",),
    problems: tuple[int, ...] = (),
    conditional: bool = False,
) -> Callable[[H], H]:
    """GET of one object, which is 304 if it is `conditional` and the caller has it."""
    return _describe(
        "show",
        summary,
        Answer(answer),
        headers=headers,
        problems=problems,
        conditional=conditional,
    )


def reports(answer: Doc, summary: str) -> Callable[[H], H]:
    """GET of a report."""
    return _describe("show", summary, Answer(answer, REPORT), problems=(404, 422))


def concludes(answer: Doc, summary: str) -> Callable[[H], H]:
    """GET of results, which is 409 before there are any."""
    return _describe("show", summary, Answer(answer, RESULTS), problems=(404, 409))


def states(answer: Doc, summary: str) -> Callable[[H], H]:
    """GET of a statement."""
    return _describe("show", summary, Answer(answer, STATEMENT))


def renders(answer: Doc, summary: str) -> Callable[[H], H]:
    """GET of a rendering, which is 304 if the caller has it."""
    return _describe(
        "show",
        summary,
        Answer(answer, RENDERING),
        headers=("ETag",),
        problems=(409, 413),
        conditional=True,
    )


def exports(summary: str, *, ends: bool = False, headers: tuple[str, ...] = ()) -> Callable[[H], H]:
    """GET of a whole list as one stream of rows.

    A list that `ends` gets no more rows; others answer the cursor to continue from.
    """
    headers = headers if ends else (*headers, "X-Next-Cursor")
    return _describe("export", summary, Answer(formats=EXPORT), headers=headers)


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
    """POST that creates an object (201), or with `bulk` many, which their slugs identify if `named`."""
    return _describe(
        "create",
        summary,
        CreatedAnswer(answer, named=named) if bulk else Answer(answer),
        BulkBody(request) if bulk else Body(request),
        HTTPStatus.CREATED,
        headers=(*headers, "Idempotency-Replayed", *_generation(pool)),
        problems=(409, 411, 413, 415, 422),
        repeatable=True,
    )


def updates(request: Doc, answer: Doc, summary: str, *, pool: bool = False) -> Callable[[H], H]:
    """PATCH, a merge-patch of what was read at the version in If-Match."""
    return _describe(
        "update",
        summary,
        Answer(answer),
        PatchBody(request),
        headers=("ETag", *_generation(pool)),
        problems=(409, 411, 412, 413, 415, 422, 428),
        # A change of fields that the client has not read would undo another's without notice.
        if_match="required",
    )


def puts(request: Doc, answer: Doc, summary: str) -> Callable[[H], H]:
    """PUT, which makes the object (201) or replaces the version in If-Match (200)."""
    return _describe(
        "put",
        summary,
        Answer(answer),
        Body(request),
        headers=("ETag", "Location", "Pool-Generation"),
        problems=(409, 411, 412, 413, 415, 422, 428),
        # Without the header it creates: what another request has created meanwhile is 428, not
        # replaced.
        if_match="to replace",
    )


def replaces(request: Doc, answer: Doc, summary: str) -> Callable[[H], H]:
    """PUT of a document that only the caller writes (200)."""
    problems = (409, 411, 413, 415, 422)
    return _describe("replace", summary, Answer(answer), Body(request), problems=problems)


def retires(summary: str, *, pool: bool = False) -> Callable[[H], H]:
    """DELETE, which keeps the history (204)."""
    return _describe(
        "retire",
        summary,
        status=HTTPStatus.NO_CONTENT,
        headers=_generation(pool),
        problems=(409, 412, 428),
        if_match="required",
    )


def acts(answer: Doc, summary: str) -> Callable[[H], H]:
    """POST of an action on an object, which it answers."""
    return _describe(
        "act",
        summary,
        Answer(answer),
        Body(NoFields),
        headers=("ETag", "Idempotency-Replayed", "Pool-Generation"),
        problems=(409, 411, 412, 413, 415, 422),
        # An action names its outcome, and carries no field of an old version that could undo a
        # change.
        if_match="optional",
        repeatable=True,
    )


def accepts(request: Doc, answer: Doc, summary: str, *, pool: bool = True) -> Callable[[H], H]:
    """POST of work that a worker does later (202)."""
    return _describe(
        "request",
        summary,
        Answer(answer),
        Body(request),
        HTTPStatus.ACCEPTED,
        headers=("Location", "Retry-After", "Idempotency-Replayed", *_generation(pool)),
        problems=(409, 411, 413, 415, 422),
        repeatable=True,
    )


def records(request: Doc, answer: Doc, summary: str) -> Callable[[H], H]:
    """POST of one or many facts that are each stored once (200)."""
    return _describe(
        "record",
        summary,
        Answer(answer),
        # 200, not 201: of facts that are sent again only those that are new are stored.
        Body(request, many=True),
        headers=("Idempotency-Replayed",),
        problems=(409, 411, 413, 415, 422),
        repeatable=True,
    )


def computes(
    request: Doc, answer: Doc, summary: str, *, problems: tuple[int, ...]
) -> Callable[[H], H]:
    """POST that stores nothing and answers what it computed (200)."""
    # Not repeatable by a key: nothing is stored, so that a repetition only costs its computation.
    problems = (411, 413, 415, 422, *problems)
    return _describe("compute", summary, Answer(answer), Body(request), problems=problems)


def _generation(pool: bool) -> tuple[str, ...]:
    return ("Pool-Generation",) if pool else ()
