"""Reads from a hot standby, which may lag behind the primary server."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from allocator_service.settings.databases import STANDBY

_primary: ContextVar[BaseDatabaseWrapper | None] = ContextVar("primary", default=None)


def has_standby() -> bool:
    """Return whether this process has the address of a standby."""
    return STANDBY in connections.settings


def primary() -> BaseDatabaseWrapper:
    """Return the connection to the primary server, also while the standby is read."""
    return _primary.get() or connections[DEFAULT_DB_ALIAS]


@contextmanager
def reading_standby() -> Iterator[None]:
    """Let the block's statements go to the standby, those of raw cursors too."""
    # Django keeps a connection for each thread, so other requests keep theirs. A router of Django would
    # only see the statements of models.
    ours = connections[DEFAULT_DB_ALIAS]
    token = _primary.set(ours)
    # It stays open until the request ends, when Django closes the connections of all aliases.
    connections[DEFAULT_DB_ALIAS] = connections[STANDBY]
    try:
        yield
    finally:
        connections[DEFAULT_DB_ALIAS] = ours
        _primary.reset(token)
