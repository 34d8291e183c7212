"""Writing events: in the transaction of what they tell, never before and never after."""

from datetime import datetime
from typing import Any

from structlog.contextvars import get_contextvars

from allocator_service.core.models import Event


def event_record(
    *,
    kind: str,
    payload: dict[str, Any],
    now: datetime,
    pool: str | None = None,
    tenant: str | None = None,
) -> Event:
    """Store an event. The request that caused it is taken from the logging context."""
    return Event.objects.create(
        kind=kind,
        pool=pool,
        tenant=tenant,
        payload=payload,
        occurred_at=now,
        request_id=request_id(),
    )


def request_id() -> str:
    """The id of the request that is being served, or empty outside one."""
    return str(get_contextvars().get("request_id", ""))
