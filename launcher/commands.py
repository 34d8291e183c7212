"""Commands that run beside the service: management commands, benchmarks."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from launcher.console import StepFailed
from launcher.folders import PROJECT
from launcher.servers import Servers


def migrate(python: Path, servers: Servers) -> None:
    """Apply the migrations that the database does not have yet. Raises `StepFailed`."""
    run_step(
        "migrate the database",
        [python, "manage.py", "migrate", "--no-input", "--verbosity", "1"],
        servers.environ(ALLOCATOR_PROCESS="manage"),
        "repair the migration that failed; those before it are applied and stay",
    )


def run_step(step: str, command: Sequence[str | Path], env: Mapping[str, str], advice: str) -> str:
    """Run a command that must succeed and return its standard output. Raises `StepFailed`."""
    done = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True)
    if done.returncode:
        raise StepFailed(step, advice, log=done.stdout + done.stderr)
    return done.stdout


def run_in_foreground(command: Sequence[str | Path], env: Mapping[str, str]) -> int:
    """Run a command on our own terminal, input and output, and return its exit code."""
    child = subprocess.Popen(command, cwd=PROJECT, env=env)
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            # Ctrl-C reached the child as well; a signal sent to us alone did not.
            child.send_signal(signal.SIGINT if os.isatty(0) else signal.SIGTERM)
