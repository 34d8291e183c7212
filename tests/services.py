"""Starts PostgreSQL and Redis for a test session, before pytest-django reads the settings.

An early plugin (`-p tests.services`) and not a fixture: the settings are read while pytest sets
itself up. Workers of pytest-xdist inherit the variables and make databases of their own. What
DATABASE_URL and REDIS_URL name already is used as it is.
"""

import os

import pytest

from launcher import folders
from launcher.servers import Servers


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config):
    """Wrap the hook in which pytest-django reads the settings."""
    if not ({"DATABASE_URL", "REDIS_URL"} <= os.environ.keys()):
        folder = folders.fresh("test")
        early_config.add_cleanup(folder.remove)
        servers = Servers(folder, durable=False, tests=True)
        early_config.add_cleanup(servers.stop)  # cleanups run last in, first out
        os.environ.update(servers.environment)
    return (yield)
