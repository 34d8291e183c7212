"""Commands that run beside the service, such as management commands and benchmarks."""

import hashlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from launcher.console import StepFailed, echo
from launcher.folders import PROJECT
from launcher.servers import Servers

_MIGRATED = "migrated"
_REPAIR = "repair the migration that failed; those before it are applied and stay"
_LOOK_AT_THE_DATABASE = (
    "look why the database does not answer, then try again; what was applied stays"
)
_CONNECTION_LOST = re.compile(
    r"connection failed|server closed the connection|the connection is (?:closed|lost)"
    r"|terminating connection|database system is|Connection refused"
)


def migrate(python: Path, servers: Servers) -> None:
    """Apply the pending migrations of the database.

    If the launcher's own PostgreSQL ends meanwhile, it is started again once. Raises `StepFailed`.
    """
    try:
        _migrate(python, servers)
    except StepFailed:
        if servers.postgres is None or not servers.postgres.has_ended():
            raise
        echo("PostgreSQL ended during the migration; starting it again.")
        servers.postgres.restart()
        _migrate(python, servers)


def _migrate(python: Path, servers: Servers) -> None:
    command: list[str | Path] = [python, "manage.py", "migrate", "--no-input", "--verbosity", "1"]
    environment = servers.environ(ALLOCATOR_PROCESS="manage")
    try:
        run_step("migrate the database", command, environment, _REPAIR)
    except StepFailed as failure:
        if _CONNECTION_LOST.search(str(failure.log)):
            failure.advice = _LOOK_AT_THE_DATABASE
        raise


def migrate_if_changed(python: Path, servers: Servers, folder: Path) -> None:
    """Apply the pending migrations unless this data already has all migrations of these sources.

    A manual `migrate` must call `forget_migrations`.
    """
    stamp = folder / _MIGRATED
    required = _migrations_digest()
    if servers.postgres is None or not stamp.exists() or stamp.read_text() != required:
        migrate(python, servers)
        stamp.write_text(required)


def forget_migrations(folder: Path) -> None:
    """Make the next start check the migrations again."""
    (folder / _MIGRATED).unlink(missing_ok=True)


def _migrations_digest() -> str:
    """Return a digest of the project's migrations and of the locked packages, which have their own."""
    digest = hashlib.sha256((PROJECT / "requirements-local.lock").read_bytes())
    for path in sorted((PROJECT / "allocator_service").glob("**/migrations/*.py")):
        digest.update(path.relative_to(PROJECT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def run_step(step: str, command: Sequence[str | Path], env: Mapping[str, str], advice: str) -> str:
    """Run a command that must succeed and return its standard output. Raises `StepFailed`."""
    done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True)
    if done.returncode:
        raise StepFailed(step, advice, log=done.stdout + done.stderr)
    return done.stdout


def run_in_foreground(command: Sequence[str | Path], env: Mapping[str, str]) -> int:
    """Run a command on the launcher's terminal and return its exit code."""
    child = subprocess.Popen(command, cwd=PROJECT, env=env)
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            # Ctrl-C reached the child as well; a signal sent to us alone did not.
            child.send_signal(signal.SIGINT if os.isatty(0) else signal.SIGTERM)
