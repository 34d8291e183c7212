"""Identifiers that leave the service, as UUIDv7 in order of creation."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from uuid_utils.compat import uuid7

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def new_id() -> UUID:
    """Return a new UUIDv7."""
    return uuid7()


def new_ids(count: int) -> list[UUID]:
    """Return `count` new UUIDv7 in ascending order, so that bulk rows list in the order they came."""
    return sorted(uuid7() for _ in range(count))


def made_at(id_: UUID) -> datetime:
    """Return the instant at which a UUIDv7 was made, to the millisecond."""
    return _EPOCH + timedelta(milliseconds=id_.int >> 80)
