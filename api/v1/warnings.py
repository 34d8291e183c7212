"""Warnings in the responses of changes that are accepted although their effect may surprise."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.what_if.guarantees import UnmetGuarantee, guarantees_check
from allocator_service.core.clock import utc_now
from api.contract import documents
from api.v1.limits import UnmetGuarantee as UnmetDocument
from api.views import PoolView

P = ParamSpec("P")
V = TypeVar("V", bound=PoolView)
UNMET, NOT_COMPUTED, EXHAUSTED = "guarantee.unmet", "guarantee.not_computed", "budget.exhausted"
# Fields of groups, members and pools that decide which guarantees can be met.
_FIELDS = ("guarantee", "own_servers", "count", "lend")


class WarningDocument(documents.Document):
    code = documents.ChoiceField(choices=[UNMET, NOT_COMPUTED, EXHAUSTED])
    detail = documents.TextField(max_length=10_000, description="Sentence for people.")
    guarantee = documents.DocumentField(
        UnmetDocument, required=False, description="The guarantee, of `guarantee.unmet`."
    )
    from_ = documents.TimestampField(
        required=False,
        description="Instant from which a guarantee is not met that later decisions do not meet. Absent"
        " of the next decision.",
    )


def warnings_field() -> documents.ListField:
    """Return the field of the warnings of a change."""
    return documents.ListField(
        WarningDocument,
        min_items=0,
        required=False,
        description="Effects of the change that may surprise. Absent without any.",
    )


def with_warnings(response: Response, warnings: list[dict[str, Any]]) -> Response:
    """Add warnings to the response of a change, if there are any."""
    if warnings:
        response.data = {**response.data, "warnings": warnings}
    return response


def warns_of_guarantees(
    handler: Callable[Concatenate[V, Request, P], Response | HttpResponse],
) -> Callable[Concatenate[V, Request, P], Response | HttpResponse]:
    """Add a warning for each unmet guarantee to the response of a change.

    Warnings name other members, so only callers who may see these get them. They are computed after
    the change is committed, because a computation must not hold the lock of the pool.
    """

    @wraps(handler)
    def served(
        self: V, request: Request, *args: P.args, **kwargs: P.kwargs
    ) -> Response | HttpResponse:
        response = handler(self, request, *args, **kwargs)
        sees_names = self.caller.group is None and self.caller.tenant is None
        body = self.body_value()
        # Only then: the check solves for the whole pool, which a change of a name need not wait for.
        concerns = isinstance(body, Mapping) and any(name in body for name in _FIELDS)
        if not sees_names or not concerns or not isinstance(response, Response):
            return response
        return with_warnings(response, _of_guarantees(self, response.data))

    return cast("Callable[Concatenate[V, Request, P], Response | HttpResponse]", served)


def _of_guarantees(view: PoolView, changed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the warnings after a change. `changed` is the node or pool as the response shows it."""
    starts = [row["from"] for row in changed.get("guarantee", ()) if row["from"] is not None]
    # The response is not rendered yet, or has instants as text already.
    later = [datetime.fromisoformat(each) if isinstance(each, str) else each for each in starts]
    check = guarantees_check(view.pool, now=utc_now(), later=later)
    return [
        *(_unmet_warning(each) for each in check.unmet),
        *({"code": NOT_COMPUTED, "detail": text} for text in check.unknown),
    ]


def _unmet_warning(unmet: UnmetGuarantee) -> dict[str, Any]:
    since = {} if unmet.since is None else {"from": unmet.since}
    return {"code": UNMET, "detail": unmet.text, "guarantee": unmet.row, **since}


def budget_warnings(text: str) -> list[dict[str, Any]]:
    """Return the warnings of a change of a budget, by the text of the service."""
    return [{"code": EXHAUSTED, "detail": text}] if text else []
