"""OpenStack Placement on the same PostgreSQL, behind gunicorn with as many processes and threads.

It stores inventories of servers and claims on them behind a REST interface in Python, which many sites
run and whose speed their users are used to. It is installed into an environment of its own.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import psycopg
from psycopg import sql

from launcher.folders import PROJECT
from launcher.processes import Process, start, stop, wait_until_ready

REQUIREMENTS = (
    "openstack-placement==16.0.0",
    "psycopg2-binary==2.9.13",
    f"gunicorn=={version('gunicorn')}",
)
ENVIRONMENT = PROJECT / ".data" / "placement"
DATABASE = "placement"
# As many threads as ours has; gunicorn's own worker, because ours is a part of the service.
WEB_OPTIONS = ("--worker-class", "gthread", "--threads", "4", "--graceful-timeout", "30")
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}


class Placement:
    """A running Placement with ``servers`` resource providers."""

    def __init__(self, database_url: str, workers: int) -> None:
        python = _install()
        self._folder = ENVIRONMENT / "configuration"
        self._folder.mkdir(exist_ok=True)
        with psycopg.connect(database_url, autocommit=True) as connection:
            # A new database, because providers of an earlier run would be in the lists.
            name = sql.Identifier(DATABASE)
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(name))
            connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
            user, host = connection.info.user, connection.info.host
            port = connection.info.port
        (self._folder / "placement.conf").write_text(
            "[api]\nauth_strategy = noauth2\n[placement_database]\n"
            f"connection = postgresql+psycopg2://{user}@/{DATABASE}?host={host}&port={port}\n"
        )
        environment = {**os.environ, "OS_PLACEMENT_CONFIG_DIR": str(self._folder)}
        environment |= {"WEB_CONCURRENCY": str(workers)}
        manage = [str(python.parent / "placement-manage"), "--config-dir", str(self._folder)]
        subprocess.run([*manage, "db", "sync"], check=True, env=environment, capture_output=True)
        # Bound here and handed on, so that no other process takes the port in between.
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(listener.getsockname()[1])
        self.log = self._folder / "web.log"
        with self.log.open("wb") as log:
            self._process: Process = start(
                [python, "-m", "gunicorn", "placement.wsgi.api:application", *WEB_OPTIONS,
                 "--bind", f"fd://{listener.fileno()}", "--no-control-socket"],
                env=environment, cwd=self._folder, output=log, pass_fds=[listener.fileno()],
            )  # fmt: skip
        listener.close()

    def wait(self, answers: Callable[[], bool]) -> None:
        """Wait until ``answers()`` returns True. Raises `StepFailed`."""
        wait_until_ready(
            answers,
            process=self._process,
            step="start Placement",
            log=self.log,
        )

    def stop(self) -> None:
        """Stop the web server. The database ends with the servers."""
        stop(self._process, patience_seconds=5)


def provider(position: int) -> bytes:
    """Return the body of the request that creates resource provider ``position``."""
    name = f"server-{position:04d}"
    return json.dumps({"name": name, "uuid": provider_id(position)}).encode()


def provider_id(position: int) -> str:
    """Return the id of resource provider ``position``, the same in every run."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"server-{position}"))


def _install() -> Path:
    """Install Placement at the first use, and return the interpreter of its environment."""
    python = ENVIRONMENT / "venv" / "bin" / "python"
    mark = ENVIRONMENT / "installed"
    if not mark.exists() or mark.read_text() != "\n".join(REQUIREMENTS):
        ENVIRONMENT.mkdir(parents=True, exist_ok=True)
        print("Installing OpenStack Placement into an environment of its own (once) ...")
        subprocess.run([sys.executable, "-m", "venv", "--clear", python.parents[1]], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
        # Last, so that an installation that broke off is begun anew.
        mark.write_text("\n".join(REQUIREMENTS))
    return python
