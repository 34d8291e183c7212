"""For how long five wrong passwords lock a user out of the admin, from the network they came from."""

from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest

from allocator_service.core.addresses import client_network
from allocator_service.core.clock import utc_now

FIRST, LONGEST = timedelta(minutes=1), timedelta(hours=1)
REMEMBERED = timedelta(days=1)


def cool_off(request: HttpRequest | None) -> timedelta:
    """A minute after the first five failures of a day, and twice as long after each further five.

    Counted for a user's name and a network: nobody elsewhere can keep an administrator out.
    """
    from axes.models import AccessFailureLog

    if request is None:
        return LONGEST
    failures = AccessFailureLog.objects.filter(
        username=request.POST.get("username", ""),
        ip_address=client_network(request),
        attempt_time__gte=utc_now() - REMEMBERED,
    ).count()
    times: int = max(0, failures // settings.AXES_FAILURE_LIMIT - 1)
    longer: int = 2 ** min(times, 10)
    return min(FIRST * longer, LONGEST)
