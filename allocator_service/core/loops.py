"""Processes that turn for ever, such as the relay and the sender."""

import psycopg
from django.db import InterfaceError, OperationalError

# What a lost database raises: Django's own statements, and those of psycopg beside it.
DATABASE_ERRORS = (
    OperationalError,
    InterfaceError,
    psycopg.OperationalError,
    psycopg.InterfaceError,
)
# Until a loop looks for a lost database again.
RECONNECT_SECONDS = 1.0
