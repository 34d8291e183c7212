"""A launched service of their own for these tests, because everything of it is killed."""

from collections.abc import Iterator

import pytest

from tests.faults.launched import LaunchedService


@pytest.fixture(scope="package")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaunchedService]:
    with LaunchedService(tmp_path_factory.mktemp("launched") / "log") as service:
        yield service


@pytest.fixture(scope="package")
def key(launched: LaunchedService) -> str:
    return launched.manage("apikey", "create", "--scope", "operator", "--name", "storm")
