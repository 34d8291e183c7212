"""A Slurm that nobody installed: Debian's packages, downloaded with apt and unpacked into a folder.

`python -m tests.slurm.packages` does it beforehand, as .ci/run asks for.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from launcher.folders import PROJECT

PACKAGES = (
    "munge",
    "mariadb-server-core",
    "mariadb-client-core",
    "slurmctld",
    "slurmd",
    "slurmdbd",
    "slurm-client",
    "slurm-wlm-basic-plugins",
    "slurm-wlm-mysql-plugin",
    "slurmrestd",
)
FOLDER = "ALLOCATOR_SLURM_DIR"
_SECONDS = 180
# Debian chooses the programs by alternatives; slurmctld reads its own name and fails under another.
_CALLED = ("slurmctld", "slurmd", "slurmstepd")


class Unavailable(Exception):
    """The packages cannot be had here; the text says why."""


def unpacked() -> Path:
    """The folder in which the packages are unpacked. Raises `Unavailable` with the reason."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise Unavailable("Slurm comes as Debian packages, and there is no apt-get here")
    wanted = _wanted()
    digest = hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:12]
    home = Path(os.environ.get(FOLDER) or PROJECT / ".data" / "slurm")
    folder = home / digest
    if not folder.exists():
        home.mkdir(parents=True, exist_ok=True)
        draft = home / f"{digest}.{os.getpid()}"
        try:
            _unpack(wanted, draft)
            draft.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was faster
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return folder


def _wanted() -> list[str]:
    """The packages that are not installed here, as name=version, with those that they need."""
    told = _apt("install", "--dry-run", "--no-install-recommends", *PACKAGES)
    lines = [line.split() for line in told.splitlines() if line.startswith("Inst ")]
    wanted = [f"{words[1]}={next(w for w in words if w.startswith('('))[1:]}" for words in lines]
    if not any(item.startswith("slurmctld=") for item in wanted):
        raise Unavailable("a Slurm is installed here already, and the tests start their own")
    return sorted(wanted)


def _unpack(wanted: list[str], folder: Path) -> None:
    archives = folder / "archives"
    archives.mkdir(parents=True)
    _apt("download", "--quiet", *wanted, cwd=archives)
    for archive in archives.glob("*.deb"):
        subprocess.run(["dpkg", "-x", archive, folder], check=True)
    shutil.rmtree(archives)
    for name in _CALLED:
        (folder / "usr" / "sbin" / name).symlink_to(f"{name}-wlm")


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
    try:
        print(unpacked())
    except Unavailable as reason:
        sys.exit(f"No Slurm for the tests: {reason}")
