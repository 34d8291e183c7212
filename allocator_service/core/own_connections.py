"""Connections that bypass Django's pool and a pooler of transactions.

Locks, snapshots and settings of a session live as long as its connection.
"""

from dataclasses import replace
from typing import Any

import psycopg
from django.conf import settings
from django.db.backends.postgresql.base import DatabaseWrapper

from allocator_service.core.standby import primary
from allocator_service.settings.databases import database, uses_pooler


def own_connection() -> psycopg.Connection[Any]:
    """Open a connection to the server itself, which the caller must close."""
    ours, environment = primary(), settings.ENVIRONMENT
    if uses_pooler(environment):
        direct = database(replace(environment, web_database_url=environment.database_url))
        ours = DatabaseWrapper({**ours.settings_dict, **direct})
    return psycopg.connect(**ours.get_connection_params())
