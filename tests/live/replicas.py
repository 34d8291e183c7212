"""A PostgreSQL server and a hot standby of it, which answer on TCP."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from launcher import binaries, folders
from launcher.postgres import APPLICATION_ROLE, DATABASE, OWNER_ROLE, Postgres
from launcher.processes import Process, start, stop, wait_until_ready
from tests.services import redis_database

HOST = "127.0.0.1"
NAME = "standby"
_RULES = f"""
local all all trust
host all all {HOST}/32 trust
host replication all {HOST}/32 trust
"""


class Server:
    """A PostgreSQL server on a data folder of its own, with its port."""

    def __init__(self, folder: folders.DataFolder, data: Path) -> None:
        self._folder, self._data = folder, data
        self._programs = binaries.postgres_programs(folder)
        with socket.create_server((HOST, 0)) as free:
            self.port = int(free.getsockname()[1])
        self.process: Process | None = None

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        command: list[str | Path] = [
            self._programs / "postgres",
            *("-D", self._data, "-k", self._folder.sockets, "-h", HOST, "-p", str(self.port)),
            *("-c", "max_connections=200", "-c", "timezone=UTC"),
        ]
        log_file = self._folder.logs / f"{self._data.name}.log"
        with log_file.open("ab") as log:
            self.process = start(command, cwd=Path("/"), account=self._folder.account, output=log)
        wait_until_ready(
            self._answers, process=self.process, step="start PostgreSQL", log=log_file, seconds=60
        )

    def copy_to(self, data: Path) -> None:
        """Copy this server into a new data folder, which is that of a standby."""
        run_as(
            self._folder,
            self._programs / "pg_basebackup",
            *("--pgdata", data, "--dbname", f"{self._conninfo} application_name={NAME}"),
            *("--write-recovery-conf", "--checkpoint=fast"),
        )

    def execute(self, statement: str, *parameters: Any) -> list[Any]:
        """Return the rows of a statement of the superuser."""
        with psycopg.connect(f"{self._conninfo} dbname={DATABASE}", autocommit=True) as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def url(self, role: str) -> str:
        return f"postgresql://{role}@{HOST}:{self.port}/{DATABASE}"

    def kill(self) -> None:
        """Kill the server and its sessions as a power cut does."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        for pid in self._sessions():
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def stop(self) -> None:
        if self.process is not None:
            stop(self.process, first=signal.SIGQUIT, patience_seconds=10)

    @property
    def _conninfo(self) -> str:
        return f"host={HOST} port={self.port} user=postgres"

    def _sessions(self) -> list[int]:
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text().split()] if children.exists() else []

    def _answers(self) -> bool:
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True


def run_as(folder: folders.DataFolder, *command: str | Path) -> None:
    done = subprocess.run(
        command, capture_output=True, cwd="/", text=True, **folder.account.identity
    )
    assert done.returncode == 0, done.stderr


class Replicated:
    """A server and its hot standby."""

    def __init__(self, primary: Server, standby: Server) -> None:
        self.primary, self.standby = primary, standby

    def url(self, role: str = APPLICATION_ROLE) -> str:
        """Return the address that leads to whichever of the two takes writes."""
        hosts = ",".join(f"{HOST}:{server.port}" for server in (self.primary, self.standby))
        return f"postgresql://{role}@{hosts}/{DATABASE}?target_session_attrs=read-write"

    def environment(self) -> dict[str, str]:
        return {"DATABASE_URL": self.url(), "MIGRATION_DATABASE_URL": self.url(OWNER_ROLE)}

    def require_standby(self) -> None:
        """Let no commit return before the standby has it on its disk."""
        self.primary.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{NAME}'")
        self.primary.execute("SELECT pg_reload_conf()")
        deadline = time.monotonic() + 20
        states = "SELECT sync_state FROM pg_stat_replication"
        while self.primary.execute(states) != [("sync",)]:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def freeze_receiver(self, frozen: bool) -> None:
        """Freeze the process of the standby that receives changes, or let it go on."""
        ((pid,),) = self.standby.execute(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walreceiver'"
        )
        os.kill(pid, signal.SIGSTOP if frozen else signal.SIGCONT)


@contextmanager
def replicated() -> Iterator[Replicated]:
    """A durable server without tables, and a hot standby that follows it."""
    with ExitStack() as stack:
        folder = folders.fresh("replicated")
        stack.callback(folder.remove)
        Postgres(folder).stop()  # has made the cluster
        data = folder.path / "postgres"
        (data / "pg_hba.conf").write_text(_RULES)
        primary = Server(folder, data)
        stack.callback(primary.stop)
        primary.start()
        copy = folder.subfolder("standby")
        primary.copy_to(copy)
        standby = Server(folder, copy)
        stack.callback(standby.stop)
        standby.start()
        yield Replicated(primary, standby)


def environment_of(pair: Replicated, worker_id: str) -> dict[str, str]:
    """Return the variables of a service on these servers, with a Redis database of its own."""
    number = 1 if worker_id == "master" else 1 + int(worker_id.removeprefix("gw"))
    return {
        **pair.environment(),
        "REDIS_URL": redis_database(number),
        "DJANGO_SETTINGS_MODULE": "allocator_service.settings.local",
        "THROTTLE_RATE": "100000",
        "THROTTLE_BURST": "100000",
    }
