"""The lockout of a name from a network after five wrong passwords or keys."""

from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest

from allocator_service.core.addresses import client_network
from allocator_service.core.clock import utc_now

FIRST, LONGEST = timedelta(minutes=1), timedelta(hours=1)
REMEMBERED = timedelta(days=1)


def cool_off(request: HttpRequest | None) -> timedelta:
    """Return a minute after the first five failures of a day, and twice as long after each further five.

    Counted for a name and a network, so that failures elsewhere cannot lock out an administrator or
    tenant.
    """
    from axes.models import AccessFailureLog

    if request is None:
        return LONGEST
    failures = AccessFailureLog.objects.filter(
        username=_name_tried(request),
        ip_address=client_network(request),
        attempt_time__gte=utc_now() - REMEMBERED,
    ).count()
    times: int = max(0, failures // settings.AXES_FAILURE_LIMIT - 1)
    longer: int = 2 ** min(times, 10)
    return min(FIRST * longer, LONGEST)


def locked_out(request: HttpRequest, name: str) -> bool:
    """Return whether signing in as `name` has failed too often from the request's network."""
    from axes.handlers.proxy import AxesProxyHandler

    return not AxesProxyHandler.is_allowed(request, _credentials(request, name))


def sign_in_failed(request: HttpRequest, name: str) -> None:
    """Count a failure to sign in as `name`. The input is masked, as passwords are."""
    from axes.handlers.proxy import AxesProxyHandler

    AxesProxyHandler.user_login_failed(
        sender=__name__, credentials=_credentials(request, name), request=request
    )
    request.axes_locked_out = False  # type: ignore[attr-defined] # else its middleware answers for us


def sign_in_succeeded(request: HttpRequest, name: str) -> None:
    """Forget the failures to sign in as `name` from the request's network."""
    from axes.handlers.proxy import AxesProxyHandler

    AxesProxyHandler.reset_attempts(username=name, ip_address=client_network(request))


def _credentials(request: HttpRequest, name: str) -> dict[str, str]:
    request.META[_TRIED_AS] = name
    return {"username": name}


def _name_tried(request: HttpRequest) -> str:
    """Return the name of the credentials, or that in the form of the admin."""
    return str(request.META.get(_TRIED_AS) or request.POST.get("username", ""))


_TRIED_AS = "allocator.signing_in_as"
