"""Versions of what routes read, by which a known answer is 304 before anything else is read."""

import hmac
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service import __version__
from allocator_service.allocation.selectors import decision_version
from allocator_service.core.clock import utc_now
from allocator_service.pools.selectors import pools_for, pools_version
from api.contract.conditional import is_known, not_modified
from api.contract.operations import Operation
from api.pseudonyms import secret
from api.views import ContractView, PoolView

P = ParamSpec("P")
V = TypeVar("V", bound=ContractView)
Handler = Callable[Concatenate[V, Request, P], Response | HttpResponse]
Version = Callable[[Any], Sequence[object] | None]

_TAG_LENGTH = 24


def of_pool(view: PoolView) -> Sequence[object]:
    """Return the version of all that a change of a pool can change, its generation."""
    pool = view.pool
    return (pool.pk, pool.generation)


def of_decision(view: PoolView) -> Sequence[object] | None:
    """Return the version of a pool and its decision in force, None for another instant or page.

    Pages after the first belong to the decision of the first one, which can be pruned.
    """
    if view.query.get("at") is not None or view.query.get("cursor") is not None:
        return None
    return (*of_pool(view), *decision_version(pool=view.pool, now=utc_now()))


def of_pools(view: ContractView) -> Sequence[object]:
    """Return the version of the pools that the caller may see."""
    if view.caller.group is not None:
        # A version of all pools would change with those that the key does not see.
        own = pools_for(None).filter(slug=view.caller.pool)
        return (*own.values_list("version", "generation"),)
    return (pools_version(view.tenant),)


def of_release(view: ContractView) -> Sequence[object]:  # noqa: ARG001
    """Return the version of what only another release changes."""
    return ()


def conditional(version: Version) -> Callable[[Handler[V, P]], Handler[V, P]]:
    """Answer a GET with an entity tag, and 304 to a caller that has the answer.

    The tag is weak: instants of the request, such as `at`, can differ. `version` must change with
    everything that the answer shows, other than by the request itself or by the caller's rights. If it
    is None, the answer is 200 without a tag.
    """

    def wrap(handler: Handler[V, P]) -> Handler[V, P]:
        @wraps(handler)
        def served(
            self: V, request: Request, *args: P.args, **kwargs: P.kwargs
        ) -> Response | HttpResponse:
            # Before the rows: a change between the two makes the tag old, not the answer.
            parts = version(self)
            tag = None if parts is None else _tag(self, request, parts)
            if tag is not None and is_known(request, tag):
                return not_modified(f"W/{tag}")
            response = handler(self, request, *args, **kwargs)
            if tag is not None:
                response["ETag"] = f"W/{tag}"
            return response

        operation: Operation = handler.operation  # type: ignore[attr-defined]
        headers = (*operation.headers, "ETag")
        served.operation = replace(  # type: ignore[attr-defined]
            operation, headers=headers, conditional=True
        )
        return cast("Handler[V, P]", served)

    return wrap


def _tag(view: ContractView, request: Request, parts: Sequence[object]) -> str:
    """Return the entity tag of an answer, from its version and what the request brings.

    It is keyed, so that it reveals nothing, and changes with the secret that pseudonyms depend on.
    """
    caller = view.caller
    text = "\n".join(
        map(
            str,
            (
                # Another release may show the same rows in other fields.
                __version__,
                # Links to pages name the host.
                request.scheme,
                request.get_host(),
                request.path,
                request.META["QUERY_STRING"],
                request.accepted_renderer.format,
                # Callers see different parts of what is at one address.
                caller.scope,
                "" if caller.tenant is None else caller.tenant.pk,
                caller.pool,
                caller.group,
                *parts,
            ),
        )
    )
    return f'"{hmac.digest(secret(), text.encode(), "sha256").hex()[:_TAG_LENGTH]}"'
