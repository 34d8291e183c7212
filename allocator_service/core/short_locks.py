"""Statements of migrations that need a table for themselves for a moment."""

_ATTEMPTS = 900
# `pg_sleep` between attempts lets the requests that wait behind this one go first.
_SQL = """
DO $$
BEGIN
    SET LOCAL lock_timeout = '500ms';
    FOR attempt IN 1..{attempts} LOOP
        BEGIN
            {statement};
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_sleep(0.5);
        END;
    END LOOP;
    RAISE lock_not_available USING MESSAGE =
        'The table was in use all the time, such as by a long export. Run migrate again later.';
END $$
"""


def with_short_locks(statement: str, *, attempts: int = _ATTEMPTS) -> str:
    """Return SQL that runs a statement once it gets its locks within half a second.

    PostgreSQL makes all other requests for a table wait behind a statement that waits for an exclusive
    lock. A reader of some minutes would otherwise stop the service for as long. Gives up after a quarter
    of an hour. Nothing was changed then.
    """
    return _SQL.replace("{statement}", statement).replace("{attempts}", str(attempts))
