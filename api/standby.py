"""Reads from the standby, if it has the change that the caller requires."""

import time
from collections.abc import Callable
from http import HTTPStatus

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve

from allocator_service.core.standby import has_standby, reading_standby
from api.metrics import STANDBY_READS

HEADER = "Pool-Generation"
# The longest number that a generation can have.
_DIGITS = 18
# After a failure, requests do not wait for the standby again for this long.
_REST_SECONDS = 5.0


class StandbyRead:
    """A read from the standby that requires a generation.

    `found` is the generation of the pool that the view has read there, None if it has read none.
    """

    def __init__(self, required: int) -> None:
        self.required = required
        self.found: int | None = None

    @property
    def is_recent(self) -> bool:
        return self.found is not None and self.found >= self.required


class StandbyMiddleware:
    """Sends GETs with `Pool-Generation` to the standby, and to the primary what it cannot answer.

    The primary also answers what the standby refuses: the key, the pool or the object may be too new.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        self._rests_until = 0.0

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        required = _required(request)
        if required is None or not has_standby() or time.monotonic() < self._rests_until:
            return self.get_response(request)
        read = StandbyRead(required)
        request.standby_read = read  # type: ignore[attr-defined]
        with reading_standby():
            response = self.get_response(request)
        del request.standby_read  # type: ignore[attr-defined]
        if read.is_recent and response.status_code < HTTPStatus.BAD_REQUEST:
            STANDBY_READS.labels("standby").inc()
            return response
        STANDBY_READS.labels("primary").inc()
        # A standby that lags answers at once; one that is gone would let every request wait.
        if read.found is None and response.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            self._rests_until = time.monotonic() + _REST_SECONDS
        return self.get_response(request)


def _required(request: HttpRequest) -> int | None:
    """Return the generation that a read requires, None if it must be answered by the primary."""
    sent = request.headers.get(HEADER, "")
    if request.method not in ("GET", "HEAD") or len(sent) > _DIGITS:
        return None
    # Others would be asked twice, such as a sign-in's way back, whose code is good for once.
    if not (sent.isascii() and sent.isdigit() and _reads_standby(request)):
        return None
    return int(sent)


def _reads_standby(request: HttpRequest) -> bool:
    try:
        view = resolve(request.path_info).func
    except Resolver404:
        return False
    return bool(getattr(getattr(view, "view_class", None), "reads_standby", False))
