"""`./dev bench`, the benchmarks on their own servers with durable writes."""

import argparse
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from launcher import folders
from launcher.commands import run_in_foreground
from launcher.environment import VirtualEnvironment
from launcher.folders import PROJECT
from launcher.kernels import Kernels
from launcher.servers import Servers
from launcher.supervisor import interrupt_on_signals

_NAMES = "from benchmarks.__main__ import BENCHMARKS; print(*BENCHMARKS)"


def bench(arguments: Sequence[str]) -> int:
    """Run `python -m benchmarks` with these arguments, each benchmark on servers of its own.

    Return an exit code that is not 0 if one of them has such a code. Raises `StepFailed`.
    """
    python = VirtualEnvironment().ensure("dev")
    Kernels(python).compile_all()
    interrupt_on_signals()
    names, options = _divided(arguments)
    if {"-h", "--help"} & {*options}:
        return run_in_foreground([python, "-m", "benchmarks", "--help"], {**os.environ})
    # Two benchmarks on one database would meet each other's pools and keys.
    codes = [_run(python, [name, *options]) for name in names or _all(python)]
    return max(codes, key=abs)  # that of a signal is negative


def _divided(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of benchmarks and the other arguments."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--json")
    given, options = parser.parse_known_args(arguments)
    if given.json is not None:
        options.append(f"--json={given.json}")
    names = [each for each in options if not each.startswith("-")]
    return names, [each for each in options if each.startswith("-")]


def _all(python: Path) -> list[str]:
    listed = subprocess.run(
        [python, "-c", _NAMES], cwd=PROJECT, check=True, stdout=subprocess.PIPE, text=True
    )
    return listed.stdout.split()


def _run(python: Path, arguments: Sequence[str]) -> int:
    folder = folders.fresh("bench")
    try:
        with Servers(folder, tests=True) as servers:
            return run_in_foreground([python, "-m", "benchmarks", *arguments], servers.environ())
    finally:
        folder.remove()
