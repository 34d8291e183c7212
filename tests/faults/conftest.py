"""The service with servers of its own, because they are killed; one for all of these tests."""

import os
from collections.abc import Iterator

import pytest

from launcher import folders
from launcher.servers import Servers
from tests.live.service import LiveService


@pytest.fixture(scope="package")
def servers() -> Iterator[Servers]:
    """A durable PostgreSQL and Redis of their own, because they are killed."""
    folder = folders.fresh("test")
    saved = {name: os.environ.pop(name, None) for name in ("DATABASE_URL", "MIGRATION_DATABASE_URL",
                                                          "REDIS_URL")}  # fmt: skip
    try:
        servers = Servers(folder, durable=True)
    finally:
        os.environ.update({name: value for name, value in saved.items() if value is not None})
    yield servers
    servers.stop()
    folder.remove()


@pytest.fixture(scope="package")
def service(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    environment = {
        **servers.environment,
        "DJANGO_SETTINGS_MODULE": "allocator_service.settings.local",
        "THROTTLE_RATE": "100000",
        "THROTTLE_BURST": "100000",
    }
    live = LiveService(environment, tmp_path_factory.mktemp("storm"))
    live.launch()
    yield live
    live.stop()


@pytest.fixture(scope="package")
def key(service: LiveService) -> str:
    return service.manage("apikey", "create", "--scope", "operator", "--name", "storm")
