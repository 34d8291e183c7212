"""Idempotency keys, by which a repeated POST gets the first answer.

The answer is stored in the transaction of its effect, so that neither exists without the other.
A refused request raises, its transaction rolls back, and its key stays free. An answer that shows a
secret once has the answer to store in `kept`.
"""

import hashlib
import re
from collections.abc import Callable
from uuid import UUID

from django.http import HttpResponse
from rest_framework.response import Response

from allocator_service.core.clock import utc_now
from allocator_service.core.documents import json_bytes
from allocator_service.core.errors import Conflict, Unacceptable, Unreadable
from allocator_service.core.locks import Lock, try_lock_in_transaction
from allocator_service.core.models import IdempotencyClaim

TWIN_RETRY_SECONDS = 1
STORED_HEADERS = ("Location", "ETag", "Pool-Generation", "Retry-After")

# 1 to 255 printable ASCII characters; servers strip spaces around a header's value.
KEY_PATTERN = "^[!-~]([ -~]{0,253}[!-~])?$"
_KEY = re.compile(KEY_PATTERN)


def idempotency_key(header: str | None) -> str | None:
    """Return the key of a request, None without one. Raises `Unreadable` for another text."""
    if header is None:
        return None
    if not _KEY.fullmatch(header):
        raise Unreadable(
            "An Idempotency-Key has 1 to 255 printable ASCII characters.", code="idempotency.syntax"
        )
    return header


def serve_once(
    *, holder: UUID, path: str, key: str, body: bytes, serve: Callable[[], Response]
) -> HttpResponse | Response:
    """Serve a POST unless it was served before. Must run in the transaction of the effect.

    Raises `Conflict` while a twin is being served, `Unacceptable` when the key came with another
    body before.
    """
    # With holder and path: two clients may choose one key, and one client may use it for two
    # routes.
    identity = {"holder": holder, "method": "POST", "path": path, "key": key}
    # Tried, not awaited: a client that repeats a slow request would occupy a second worker.
    if not try_lock_in_transaction(Lock.IDEMPOTENCY, "\n".join(map(str, identity.values()))):
        raise Conflict(
            "A request with this Idempotency-Key is still in progress: repeat it later for its answer.",
            code="idempotency.in_flight",
            retry_after=TWIN_RETRY_SECONDS,
        )
    # The lock is held until the transaction ends, so the claim of a twin is visible or absent.
    digest = hashlib.sha256(body).digest()
    claim = IdempotencyClaim.objects.filter(**identity).first()
    if claim is not None:
        if bytes(claim.body_digest) != digest:
            raise Unacceptable(
                "This Idempotency-Key was already used with a different body: choose a new key.",
                code="idempotency.reused",
                pointer="",
                extra={"header": "Idempotency-Key"},
            )
        return _replayed(claim)
    response = serve()
    IdempotencyClaim.objects.create(
        **identity,
        body_digest=digest,
        status=response.status_code,
        headers={
            name: response.headers[name] for name in STORED_HEADERS if name in response.headers
        },
        # An answer with a new key is stored without its secret, which the database must not hold.
        body=json_bytes(getattr(response, "kept", response.data)),
        created_at=utc_now(),
    )
    return response


def _replayed(claim: IdempotencyClaim) -> HttpResponse:
    return HttpResponse(
        bytes(claim.body),
        status=claim.status,
        content_type="application/json",
        headers={**claim.headers, "Idempotency-Replayed": "true"},
    )
