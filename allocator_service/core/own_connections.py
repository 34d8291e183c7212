"""Connections of one's own, past Django's pool and past a pooler of transactions.

Their session belongs to one holder: locks, snapshots and settings of a session live as long as it does.
"""

from typing import Any

import psycopg
from django.conf import settings
from django.db import connection

from allocator_service.settings.databases import direct_address, uses_pooler


def own_connection() -> psycopg.Connection[Any]:
    """Open a connection to the server itself; close it when done."""
    parameters = connection.get_connection_params()
    if uses_pooler(settings.ENVIRONMENT):
        parameters |= direct_address(settings.ENVIRONMENT)
    return psycopg.connect(**parameters)
