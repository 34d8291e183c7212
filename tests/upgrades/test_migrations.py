"""Migrations since the release before can run while its processes work: they add, and lock nothing long.

One that must do otherwise says in its `safe_while_used` why it may: what the table is, and how long.
"""

import pytest
from django.apps import apps
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from tests.upgrades.compatibility import incompatible, tables_made
from tests.upgrades.previous_release import MIGRATIONS, Unavailable, last_migrations


@pytest.fixture(scope="module")
def loader(django_db_setup, django_db_blocker):
    with django_db_blocker.unblock():
        yield MigrationLoader(connection, replace_migrations=False)


def since_the_release(loader):
    """Our migrations that the release before does not have, in their order."""
    ours = {app.label for app in apps.get_app_configs() if app.name.startswith("allocator_service")}
    known = {
        node for app, last in MIGRATIONS.items() for node in loader.graph.forwards_plan((app, last))
    }
    plan = [node for leaf in loader.graph.leaf_nodes() for node in loader.graph.forwards_plan(leaf)]
    return [node for node in dict.fromkeys(plan) if node not in known and node[0] in ours]


@pytest.mark.django_db(transaction=True)  # indexes made concurrently are refused inside of one
def test_every_migration_since_the_release_before_leaves_its_processes_at_work(loader):
    found, made = {}, set()
    for node in since_the_release(loader):
        migration = loader.graph.nodes[node]
        statements = loader.collect_sql([(migration, False)])
        made |= tables_made(statements)
        wrong = incompatible(statements, made)
        why = getattr(migration, "safe_while_used", "")
        if wrong and len(why) < 20:
            found["/".join(node)] = wrong
        assert wrong or not why, f"{node} says why it is safe, and there is nothing to say it of"
    assert found == {}, "say `safe_while_used` in the migration, or do it in two releases"


def test_the_file_of_the_release_before_has_the_migrations_of_its_commit():
    try:
        assert last_migrations() == MIGRATIONS
    except Unavailable as reason:
        pytest.skip(f"the release before is not in this copy: {reason}")


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ('DROP TABLE "server" CASCADE', "drops a table"),
        ('ALTER TABLE "server" DROP COLUMN "labels"', "drops a column"),
        ('ALTER TABLE "server" RENAME COLUMN "labels" TO "tags"', "renames"),
        ('ALTER TABLE "server" RENAME TO "machine"', "renames"),
        ('ALTER TABLE "server" ALTER COLUMN "name" SET NOT NULL', "refuses rows"),
        ('ALTER TABLE "server" ALTER COLUMN "name" TYPE text USING "name"::text', "may rewrite"),
        ('ALTER TABLE "server" ALTER COLUMN "name" DROP DEFAULT', "takes away the default"),
        ('ALTER TABLE "server" DROP CONSTRAINT "server_name_unique"', "relies on"),
        ('DROP INDEX "server_by_name"', "is fast by"),
        ('ALTER TABLE "server" ADD COLUMN "rack" text NOT NULL', "refuses rows of writers"),
        ('ALTER TABLE "server" ADD COLUMN "rack" text NULL UNIQUE', "builds an index"),
        ('ALTER TABLE "server" ADD CONSTRAINT "c" CHECK ("id" > 0)', "reads the whole table"),
        ('CREATE INDEX "by_rack" ON "server" ("rack")', "builds an index"),
        ('CREATE UNIQUE INDEX "by_rack" ON "server" ("rack")', "builds an index"),
        ('UPDATE "server" SET rack = 1', "holds the rows"),
        ("-- THIS OPERATION CANNOT BE WRITTEN AS SQL", "is Python"),
    ],
)
def test_what_the_release_before_would_feel_is_found(statement, why):
    (found,) = incompatible([statement], set())
    assert found.startswith(why) or why in found
    if "INDEX" not in statement.split("ON")[0] and "CANNOT" not in statement:
        on = statement.split('"')[1]
        assert incompatible([statement], {on}) == [] or "DROP TABLE" in statement


@pytest.mark.parametrize(
    "statement",
    [
        'CREATE TABLE "rack" ("id" bigint NOT NULL PRIMARY KEY)',
        'ALTER TABLE "server" ADD COLUMN "rack" text NULL',
        'ALTER TABLE "server" ADD COLUMN "rack" text DEFAULT \'\' NOT NULL',
        'CREATE INDEX CONCURRENTLY "by_rack" ON "server" ("rack")',
        'ALTER TABLE "server" ADD CONSTRAINT "c" CHECK ("id" > 0) NOT VALID',
        "--\n-- Alter field state on server\n--\n-- (no-op)",
    ],
)
def test_what_only_adds_is_no_matter(statement):
    assert incompatible([statement], set()) == []


def test_a_table_that_is_new_may_be_changed():
    statements = ['CREATE TABLE "rack" ("id" bigint)', 'CREATE INDEX "by_id" ON "rack" ("id")']
    assert incompatible(statements, tables_made(statements)) == []
