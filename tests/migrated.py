"""A database as migrations leave it, made once in a session: a copy takes a tenth of a second."""

import os
import subprocess
import sys

import psycopg

from launcher.folders import PROJECT

# Set by tests.services where the session has servers of its own: on others nothing is left behind.
COPIED = "ALLOCATOR_TESTS_COPY"
_NAME = "migrated"
_SUPERUSER = "postgres"
_ALONE = 3_141_592  # an advisory lock: whoever comes first makes it, the others wait


def has_own_server() -> bool:
    """Return whether PostgreSQL was started for this session."""
    return bool(os.environ.get(COPIED))


def template() -> str | None:
    """The name of the migrated database to copy, made if need be; None on servers that were given."""
    if not has_own_server():
        return None
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(%s)", [_ALONE])
        made = "SELECT FROM pg_database WHERE datname = %s AND datistemplate"
        if connection.execute(made, [_NAME]).fetchone() is None:
            empty(_NAME)
            _migrate(_NAME)
            _let_owner_skip_triggers()
            connection.execute(f"ALTER DATABASE {_NAME} IS_TEMPLATE true")
    return _NAME


def fresh(database: str) -> None:
    """Make the database of that name anew: migrated, and without rows."""
    if copied := template():
        empty(database, f"TEMPLATE {copied}")
    else:
        empty(database)
        _migrate(database)


def empty(database: str, how: str = "") -> None:
    """Make the database of that name anew, without a table."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {database} {how}")


def addresses(database: str) -> dict[str, str]:
    """The variables that lead to the database of that name on the session's server."""
    names = ("DATABASE_URL", "MIGRATION_DATABASE_URL")
    return {name: f"{os.environ[name].rpartition('/')[0]}/{database}" for name in names}


def _let_owner_skip_triggers() -> None:
    """Grant the owner of the tables what `tests.emptying` needs to delete rows."""
    url = os.environ["DATABASE_URL"]
    owner = psycopg.conninfo.conninfo_to_dict(url)["user"]
    with psycopg.connect(url, user=_SUPERUSER, dbname=_SUPERUSER) as connection:
        connection.execute(f"GRANT SET ON PARAMETER session_replication_role TO {owner}")


def _migrate(database: str) -> None:
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
        env={**os.environ, **addresses(database), "ALLOCATOR_PROCESS": "manage"},
        cwd=PROJECT,
        check=True,
    )
