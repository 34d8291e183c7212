"""A database that lacks the last migrations before the squash is refused, not taken for complete."""

from importlib import import_module

import pytest
from django.db import DatabaseError, connection, transaction

MIGRATION = import_module("allocator_service.ledger.migrations.0002_validate_blocks")

pytestmark = pytest.mark.django_db


def test_a_complete_database_is_accepted():
    with connection.cursor() as cursor:
        cursor.execute(MIGRATION.REFUSE_INCOMPLETE)


@pytest.mark.parametrize(
    "lacking",
    [
        "ALTER TABLE ledger_document_pending RENAME TO elsewhere",
        "ALTER FUNCTION decision_refuse_change() RENAME TO elsewhere",
        "ALTER TABLE backtest RENAME COLUMN served_at TO elsewhere",
    ],
)
def test_a_database_of_an_older_version_is_refused(lacking):
    with connection.cursor() as cursor:
        cursor.execute(lacking)
        with (
            pytest.raises(DatabaseError, match="Apply all migrations of commit 17e9e2c"),
            transaction.atomic(),
        ):
            cursor.execute(MIGRATION.REFUSE_INCOMPLETE)
