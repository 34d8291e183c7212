"""Who is signed in: a session on the server names a key, or whatever else one may sign in by.

The key itself is in no session and no cookie. Each request looks again whether what the session names
may still be used.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from django.http import HttpRequest

from allocator_service.tenants.models import ApiKey
from allocator_service.tenants.selectors import api_key_get
from api.auth import Caller, acting, usable
from api.contract.errors import Unauthenticated

LIFETIME = timedelta(hours=12)
KEY = "key"
TOO_LONG = "too-long"
_NAME = "signed_in"


class SignedOutError(Exception):
    """Somebody was signed in and is no longer: `why` is what is wrong with the key, or `TOO_LONG`."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def sign_in(request: HttpRequest, key: ApiKey, *, now: datetime) -> None:
    """Sign in the holder of a usable key. The session gets another id: a known one is worth nothing."""
    request.session.cycle_key()
    request.session[_NAME] = {"by": KEY, "id": str(key.pk), "since": now.isoformat()}


def sign_out(request: HttpRequest) -> None:
    """End the session, or what of it is ours where an operator is logged in to the admin as well."""
    request.session.pop(_NAME, None)
    if request.session.keys():
        request.session.cycle_key()
    else:
        request.session.flush()


def signed_in(request: HttpRequest, *, now: datetime) -> Caller | None:
    """Who is signed in; None for nobody. Raises `SignedOutError` where somebody was."""
    stored = request.session.get(_NAME)
    if stored is None:
        return None
    if now - datetime.fromisoformat(stored["since"]) >= LIFETIME:
        raise SignedOutError(TOO_LONG)
    try:
        return _CALLERS[stored["by"]](stored["id"])
    except Unauthenticated as error:
        raise SignedOutError(error.code) from error


def _by_key(key_id: str) -> Caller:
    return acting(usable(api_key_get(UUID(key_id))))


# Another way of signing in is a line here, and a view that stores its name and id.
_CALLERS: Mapping[str, Callable[[str], Caller]] = {KEY: _by_key}
