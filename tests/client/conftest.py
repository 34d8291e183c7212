"""A user of `alloc`, and the service that it asks."""

import logging

import pytest
from click.testing import CliRunner

from allocator_client.cli.main import cli


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user with no profile yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("ALLOC_URL", "ALLOC_KEY", "ALLOC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def alloc(home, monkeypatch):
    # A process of its own has no logging; here other tests have set up theirs.
    monkeypatch.setattr(logging.getLogger("httpx"), "propagate", False)

    def run(*arguments, typed=None, **env):
        return CliRunner(env=env).invoke(cli, arguments, input=typed, prog_name="alloc")

    return run


@pytest.fixture
def told(alloc, scripted, monkeypatch):
    """A service that answers as told, and a key for it in the environment."""

    def start(*answers):
        service = scripted(*answers)
        monkeypatch.setenv("ALLOC_URL", service.url)
        monkeypatch.setenv("ALLOC_KEY", "alloc_secret")
        return service

    return start
