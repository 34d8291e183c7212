"""Programs that nobody installed: Debian's packages, downloaded with apt and unpacked into a folder.

`python -m tests.debian` does it beforehand, as .ci/run asks for.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from launcher.folders import PROJECT

FOLDER = "ALLOCATOR_DEBIAN_DIR"
_SECONDS = 180


@dataclass(frozen=True)
class Packages:
    """Debian's packages for one purpose; `main` is the one that is not to be installed already.

    Debian chooses some programs by alternatives: `links` names those that need their own name.
    """

    name: str
    main: str
    also: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)


SLURM = Packages(
    "slurm",
    "slurmctld",
    (
        "munge",
        "mariadb-server-core",
        "mariadb-client-core",
        "slurmd",
        "slurmdbd",
        "slurm-client",
        "slurm-wlm-basic-plugins",
        "slurm-wlm-mysql-plugin",
        "slurmrestd",
        "libnss-wrapper",  # so that jobs can be of users whom this machine does not have
    ),
    # slurmctld reads its own name and fails under another.
    {f"usr/sbin/{name}": f"{name}-wlm" for name in ("slurmctld", "slurmd", "slurmstepd")},
)
PROMETHEUS = Packages("prometheus", "prometheus")
NGINX = Packages("nginx", "nginx")
HAPROXY = Packages("haproxy", "haproxy")
PGBOUNCER = Packages("pgbouncer", "pgbouncer")


class Unavailable(Exception):
    """The packages cannot be had here; the text says why."""


def unpacked(packages: Packages) -> Path:
    """The folder in which the packages are unpacked. Raises `Unavailable` with the reason."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise Unavailable(
            f"{packages.name} comes as Debian's packages, and there is no apt-get here"
        )
    wanted = _wanted(packages)
    digest = hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:12]
    home = Path(os.environ.get(FOLDER) or PROJECT / ".data") / packages.name
    folder = home / digest
    if not folder.exists():
        home.mkdir(parents=True, exist_ok=True)
        draft = home / f"{digest}.{os.getpid()}"
        try:
            _unpack(wanted, packages.links, draft)
            draft.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was faster
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return folder


def _wanted(packages: Packages) -> list[str]:
    """The packages that are not installed here, as name=version, with those that they need."""
    told = _apt("install", "--dry-run", "--no-install-recommends", packages.main, *packages.also)
    lines = [line.split() for line in told.splitlines() if line.startswith("Inst ")]
    wanted = [f"{words[1]}={next(w for w in words if w.startswith('('))[1:]}" for words in lines]
    if not any(item.startswith(f"{packages.main}=") for item in wanted):
        raise Unavailable(f"{packages.main} is installed here already, and the tests use their own")
    return sorted(wanted)


def _unpack(wanted: list[str], links: Mapping[str, str], folder: Path) -> None:
    archives = folder / "archives"
    archives.mkdir(parents=True)
    _apt("download", "--quiet", *wanted, cwd=archives)
    for archive in archives.glob("*.deb"):
        subprocess.run(["dpkg", "-x", archive, folder], check=True)
    shutil.rmtree(archives)
    for place, target in links.items():
        (folder / place).symlink_to(target)


def _apt(*arguments: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(
            ["apt-get", *arguments],
            cwd=cwd,
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"apt-get {arguments[0]} took more than {_SECONDS} s") from None
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Unavailable(f"apt-get {arguments[0]}: {reason[-1] if reason else 'it failed'}")
    return done.stdout


if __name__ == "__main__":
    for packages in (SLURM, PROMETHEUS, NGINX, HAPROXY, PGBOUNCER):
        try:
            print(unpacked(packages))
        except Unavailable as reason:
            print(f"No {packages.name} for the tests: {reason}", file=sys.stderr)
