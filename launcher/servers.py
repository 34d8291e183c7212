"""PostgreSQL and Redis of the environment, or otherwise the launcher's own."""

import os

from launcher.folders import DataFolder
from launcher.postgres import APPLICATION_ROLE, OWNER_ROLE, Postgres
from launcher.processes import inherited_environment
from launcher.redis import Redis

_LOCAL_SETTINGS = "allocator_service.settings.local"


class Servers:
    """The servers that a command needs. Use as a context manager, or call `stop`.

    `environment` holds the variables that lead to them, DATABASE_URL, MIGRATION_DATABASE_URL and
    REDIS_URL, and outside of tests the SECRET_KEY of the data. `postgres` or `redis` is None if the
    environment names that server.
    """

    def __init__(self, folder: DataFolder, *, durable: bool = True, tests: bool = False) -> None:
        """Start the servers that `os.environ` does not name, with their data in `folder`.

        With `tests`, DATABASE_URL has the role of the owner, because the test databases belong to the
        role that creates them. Tests use `SET ROLE allocator` to check the rights of the service. If a
        start fails, all servers are stopped and `StepFailed` is raised.
        """
        self.postgres: Postgres | None = None
        self.redis: Redis | None = None
        self.environment: dict[str, str] = {}
        try:
            self._start(folder, durable=durable, tests=tests)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> "Servers":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def are_new(self) -> bool:
        """True if this start created the database, which has no tables yet."""
        return self.postgres is not None and self.postgres.is_new

    def environ(self, **more: str) -> dict[str, str]:
        """Return the environment for a process of the service that uses these servers."""
        return {
            "DJANGO_SETTINGS_MODULE": _LOCAL_SETTINGS,
            **inherited_environment(),
            **self.environment,
            **more,
        }

    def stop(self) -> None:
        """Stop the servers that were started here."""
        if self.redis:
            self.redis.stop()
        if self.postgres:
            self.postgres.stop()

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
        if not tests:
            self.environment["SECRET_KEY"] = os.environ.get("SECRET_KEY") or folder.secret()
