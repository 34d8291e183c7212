"""PostgreSQL and Redis together: those that the environment names, else our own."""

import os
from collections.abc import Mapping

from launcher.folders import DataFolder
from launcher.postgres import APPLICATION_ROLE, OWNER_ROLE, Postgres
from launcher.redis import Redis


class Servers:
    """The servers that a command needs, and the variables that lead to them.

    `environment` holds DATABASE_URL, MIGRATION_DATABASE_URL and REDIS_URL.
    """

    def __init__(self, folder: DataFolder, *, durable: bool = True, tests: bool = False) -> None:
        """Start what `os.environ` does not name.

        With `tests`, DATABASE_URL is the owner's: test databases are made by whoever connects,
        and belong to them; `SET ROLE allocator` shows what the service itself may do.
        Raises `StepFailed`, leaving nothing running.
        """
        self.postgres: Postgres | None = None
        self.redis: Redis | None = None
        self.environment: dict[str, str] = {}
        try:
            self._start(folder, durable=durable, tests=tests)
        except BaseException:
            self.stop()
            raise

    def _start(self, folder: DataFolder, *, durable: bool, tests: bool) -> None:
        if given := os.environ.get("DATABASE_URL"):
            owner = os.environ.get("MIGRATION_DATABASE_URL", given)
            self.environment |= {"DATABASE_URL": given, "MIGRATION_DATABASE_URL": owner}
        else:
            self.postgres = Postgres(folder, durable=durable)
            role = OWNER_ROLE if tests else APPLICATION_ROLE
            self.environment["DATABASE_URL"] = self.postgres.url(role)
            self.environment["MIGRATION_DATABASE_URL"] = self.postgres.url(OWNER_ROLE)
        if given := os.environ.get("REDIS_URL"):
            self.environment["REDIS_URL"] = given
        else:
            self.redis = Redis(folder, durable=durable)
            self.environment["REDIS_URL"] = self.redis.url

    def stop(self) -> None:
        """Stop the servers that were started here."""
        if self.redis:
            self.redis.stop()
        if self.postgres:
            self.postgres.stop()

    def environ(self, **more: str) -> Mapping[str, str]:
        """The environment for a process that uses these servers."""
        return {**os.environ, **self.environment, **more}
