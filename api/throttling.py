"""Throttles of requests, per key, and per network on open routes with large answers."""

import math
from typing import TYPE_CHECKING

from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from allocator_service.core.addresses import client_network
from api.auth import Caller
from api.contract.errors import TooManyRequests
from api.limiter import ADDRESS_BURST, ADDRESS_RATE, limiter

if TYPE_CHECKING:  # views read the settings that name this module
    from rest_framework.views import APIView


class KeyThrottle(BaseThrottle):
    """The rate and burst of the settings, for each key on its own."""

    _wait = 0.0

    def allow_request(self, request: Request, view: "APIView") -> bool:
        if not isinstance(request.user, Caller):
            return True
        environment = settings.ENVIRONMENT
        self._wait = limiter().wait_seconds(
            key=request.user.holder_id,
            rate=environment.throttle_rate,
            burst=environment.throttle_burst,
        )
        if self._wait > 0:
            raise TooManyRequests(
                f"This key may make {environment.throttle_rate:g} requests a second.",
                retry_after=math.ceil(self._wait),
            )
        return True


class AddressThrottle(BaseThrottle):
    """Throttle of open routes with large answers, at `ADDRESS_RATE` for each network."""

    def allow_request(self, request: Request, view: "APIView") -> bool:
        # By network, because a client of IPv6 can change its address with every request.
        wait = limiter().address_wait_seconds(
            address=client_network(request._request), rate=ADDRESS_RATE, burst=ADDRESS_BURST
        )
        if wait > 0:
            raise TooManyRequests(
                f"This network may read the document {ADDRESS_RATE:g} times a second.",
                retry_after=math.ceil(wait),
            )
        return True
