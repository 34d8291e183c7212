"""What a test session is made of, before pytest-django reads the settings: servers, examples, order.

An early plugin (`-p tests.services`) and not a fixture: the settings are read while pytest sets
itself up. Workers of pytest-xdist inherit the variables and make databases of their own. What
DATABASE_URL and REDIS_URL name already is used as it is.
"""

import gc
import os
import re
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from launcher import folders
from launcher.servers import Servers
from tests.migrated import COPIED

# Tests of whole services mostly wait for them: they go first, those of a folder one after the other on
# one worker, and share what they start.
OF_SERVICES = ("tests/live/", "tests/faults/", "tests/slurm/")
# Then the files that take longest, so that no worker is left with one of them at the end.
LONG = (
    "tests/api/test_openapi.py",
    "tests/integration/ledger/",
    "tests/integration/billing/",
    "tests/forger/",
    "tests/pages/test_access.py",
    "tests/unit/launcher/",
    "tests/upgrades/",
    "tests/unit/policies/",
)
# Set from `--thorough`; workers of pytest-xdist inherit it. Here, because `tests.examples` reads
# it when it is imported, which must be after the option is read.
THOROUGH = "ALLOCATOR_THOROUGH"
# Tests of a worker find what they made in Redis, and not what another worker's tests make: it has a
# database of the sixteen there for itself, and its services have others, see tests.live.conftest.
AT_ONCE = 3  # workers
_FIRST_OF_WORKERS = 16 - AT_ONCE
# With Python's own threshold, 700, garbage collection takes an eighth of the tests' processor time.
_GARBAGE_THRESHOLD = 50_000


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough",
        action="store_true",
        help="run the long tests, and ask every property of all its random examples, not of a sixteenth",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config):
    """Wrap the hook in which pytest-django reads the settings."""
    # As in every process of the service: the matrices are small, and the cores are all in use.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # until the tests are collected: they stay until the session ends
    if early_config.known_args_namespace.thorough:
        os.environ[THOROUGH] = "1"
    if not ({"DATABASE_URL", "REDIS_URL"} <= os.environ.keys()):
        folder = folders.fresh("test")
        early_config.add_cleanup(folder.remove)
        servers = Servers(folder, durable=False, tests=True)
        early_config.add_cleanup(servers.stop)  # cleanups run last in, first out
        os.environ.update(servers.environment)
        if servers.postgres:
            os.environ[COPIED] = "1"
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        os.environ["REDIS_URL"] = redis_database(_FIRST_OF_WORKERS + int(worker[2:]) % AT_ONCE)
    return (yield)


def redis_database(number: int) -> str:
    """The address of that database of the session's own Redis; elsewhere, of the one that was given."""
    return re.sub(r"virtual_host=\d+$", f"virtual_host={number}", os.environ["REDIS_URL"])


class LongestFirst(LoadFileScheduling):
    """Hands out files in the order of the collection, and those of whole services together."""

    def _split_scope(self, nodeid: str) -> str:
        folder = next((part for part in OF_SERVICES if nodeid.startswith(part)), None)
        return folder or super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LongestFirst | None:
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # by their number, which says little about their time
    return LongestFirst(config, log)


def pytest_collection_finish() -> None:
    """Leave the collected tests out of garbage collection, and do it less often."""
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what takes longest first."""
    parts = (*OF_SERVICES, *LONG)

    def place(item: pytest.Item) -> int:
        found = (number for number, part in enumerate(parts) if item.nodeid.startswith(part))
        return next(found, len(parts))

    items.sort(key=place)
