"""Authentication by keys, and the permission of their scopes."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import UUID

from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from structlog.contextvars import bind_contextvars

from allocator_service.core.addresses import client_network
from allocator_service.core.clock import utc_now
from allocator_service.tenants.models import Access, ApiKey, Scope, Tenant
from allocator_service.tenants.selectors import api_key_of
from allocator_service.tenants.services import api_key_used
from api.contract.errors import Forbidden, TooManyRequests, Unauthenticated
from api.limiter import limiter

if TYPE_CHECKING:  # views read the settings that name this module
    from rest_framework.views import APIView

OPERATOR: Final = frozenset({Scope.OPERATOR})
OPERATOR_AND_BILLING: Final = frozenset({Scope.OPERATOR, Scope.BILLING})
OPERATOR_AND_TENANT: Final = frozenset({Scope.OPERATOR, Scope.TENANT})
EVERY_SCOPE: Final = frozenset({Scope.OPERATOR, Scope.TENANT, Scope.BILLING})
# What an agent needs: its own pool, and the list of policies, which is the same for everybody.
EVERY_SCOPE_AND_AGENT: Final = EVERY_SCOPE | {Scope.AGENT}
OPERATOR_BILLING_AND_AGENT: Final = OPERATOR_AND_BILLING | {Scope.AGENT}
OPERATOR_TENANT_AND_AGENT: Final = OPERATOR_AND_TENANT | {Scope.AGENT}
EVERY_SCOPE_AND_GROUP: Final = EVERY_SCOPE | {Scope.GROUP}
EVERY_SCOPE_GROUP_AND_AGENT: Final = EVERY_SCOPE_AND_AGENT | {Scope.GROUP}
OPERATOR_AND_GROUP: Final = OPERATOR | {Scope.GROUP}
OPERATOR_AND_AGENT: Final = OPERATOR | {Scope.AGENT}

MAX_KEY_LENGTH = 200
UNKNOWN_KEY_RATE, UNKNOWN_KEY_BURST = 5.0, 50


@dataclass(frozen=True)
class Caller:
    """The holder of a live key, or a person on the pages of a tenant or group.

    `holder_id` is the key's or person's. `tenant` is set for tenant keys and people, `pool` for keys
    that are bound to the pool of this slug, `group` for those bound to the pool's group of this primary
    key: they limit what is seen. `access` limits what is changed, as does the `cluster` of an agent.
    """

    holder_id: UUID
    scope: Scope
    tenant: Tenant | None
    pool: str = ""
    group: int | None = None
    access: Access = Access.MANAGE
    cluster: str = ""
    is_authenticated: ClassVar[bool] = True

    @property
    def holder(self) -> str:
        return str(self.holder_id)


class ApiKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer <key>`, looked up by `key_of` in one statement."""

    def __init__(self, key_of: Callable[[str], ApiKey | None] = api_key_of) -> None:
        self._key_of = key_of

    def authenticate(self, request: Request) -> tuple[Caller, ApiKey] | None:
        header = request.headers.get("Authorization", "")
        # None lets DRF answer 401 `auth.missing`, and open routes go on without a caller.
        if not header.strip():
            return None
        scheme, _, text = header.partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthenticated(
                'The key is sent as "Authorization: Bearer <key>".', code="auth.invalid"
            )
        key = self._live_key(text.strip(), client_network(request._request))
        return acting(key), key

    def _live_key(self, text: str, network: str) -> ApiKey:
        """Return the key. Unknown keys are limited per network, after the look-up.

        A flood of unknown keys does not stop a live one.

            Raises `Unauthenticated`, or `TooManyRequests` beyond the limit.
        """
        try:
            return live_key(text, key_of=self._key_of)
        except Unauthenticated as refused:
            # Only keys that do not exist are guesses: a revoked or expired one is not counted.
            if refused.code != "auth.invalid":
                raise
            wait = limiter().address_wait_seconds(
                address=f"unknown-key:{network}", rate=UNKNOWN_KEY_RATE, burst=UNKNOWN_KEY_BURST
            )
            if wait > 0:
                raise TooManyRequests(
                    "Too many unknown keys came from this network.", retry_after=math.ceil(wait)
                ) from None
            raise

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def live_key(text: str, *, key_of: Callable[[str], ApiKey | None] = api_key_of) -> ApiKey:
    """The key with this text. Raises `Unauthenticated` unless it is known and may be used now."""
    # A long text is not hashed: no key is that long.
    return usable(key_of(text) if 0 < len(text) <= MAX_KEY_LENGTH else None)


def usable(key: ApiKey | None) -> ApiKey:
    """The key. Raises `Unauthenticated` unless it is there, not revoked and not expired."""
    if key is None:
        raise Unauthenticated("The key is not known.", code="auth.invalid")
    if key.revoked_at is not None:
        raise Unauthenticated("The key was revoked.", code="auth.revoked")
    if key.expires_at <= utc_now():
        raise Unauthenticated("The key has expired.", code="auth.expired")
    return key


def acting(key: ApiKey) -> Caller:
    """The holder of a usable key, who from now on acts in the logs and the audit."""
    # Only usable keys: the last use of a revoked one stays that before its end.
    api_key_used(key=key, now=utc_now())
    bind_contextvars(actor=f"key {key}")
    access = Access(key.access)
    return Caller(
        key.pk, Scope(key.scope), key.tenant, key.pool, key.group, access, cluster=key.cluster
    )


class ScopePermission(BasePermission):
    """Permission for the methods that a view's `scopes` name, by keys of these scopes only."""

    message = ""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        method = "GET" if request.method == "HEAD" else str(request.method)
        if method not in view.allowed_methods:
            # A method that the route lacks is answered 405 to every key.
            return isinstance(request.user, Caller)
        # Without scopes a route is closed to every key.
        scopes: Mapping[str, frozenset[Scope]] = getattr(view, "scopes", {})
        allowed = scopes.get(method, frozenset())
        if not isinstance(request.user, Caller):
            return False
        if request.user.scope not in allowed:
            self.message = _refusal(method, request.user.scope, allowed)
            return False
        # Here, for all routes: a view that forgets the check is not open to changes.
        if request.user.access == Access.READ and method != "GET":
            raise read_only()
        # Closed by default: a new route that spans pools must not lead out of a key's pool.
        if request.user.pool and method not in getattr(view, "of_a_pool", ()):
            raise Forbidden(
                f"This key is bound to the pool {request.user.pool}; the route concerns more than one"
                " pool. Use a key that is bound to none.",
                code="auth.pool",
            )
        return True


def read_only() -> Forbidden:
    """Return the error for a change by a caller who may only read."""
    return Forbidden(
        "This caller may read the group and change nothing. Use access manage of the group, or an"
        " operator's key.",
        code="auth.read_only",
    )


def _refusal(method: str, scope: Scope, allowed: frozenset[Scope]) -> str:
    """Return the detail of a refusal, with the scopes that may call the route."""
    able = " or ".join(each.value for each in Scope if each in allowed)
    other = f"use a key of scope {able}" if able else "no key can"
    return f"A key of scope {scope.value} cannot {method} this route; {other}."


def authenticated_caller(request: Any) -> Caller | None:
    """The caller of a request to an open route, if it carries a live key."""
    try:
        authenticated = ApiKeyAuthentication().authenticate(request)
    except (Unauthenticated, TooManyRequests):
        return None
    return authenticated[0] if authenticated else None
