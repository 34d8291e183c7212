"""Archive of wheels, deployment files, documentation and checksums."""

import hashlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

from devtools import site
from launcher.console import StepFailed, echo
from launcher.environment import VirtualEnvironment
from launcher.folders import PROJECT
from launcher.processes import inherited_environment

# Copied files and folders, with their places in the archive.
COPIED = {
    "deploy": "deploy",
    ".env.example": ".env.example",
    "launcher/roles.sql": "roles.sql",
    "manage.py": "manage.py",
    "CHANGELOG.md": "CHANGELOG.md",
    "docs/licences.md": "licences.md",
    "devtools/bundle/install.sh": "install.sh",
}
PACKAGES = ("policies", "agent", "client", ".")
# Requirements for pip -> the lock that they come from, and the project's own wheels that join it. The
# agent's wheel needs no other and is for the machines of schedulers.
INSTALLED = {
    "requirements.txt": ("requirements.lock", ("allocation-policies", "allocator-service")),
    "requirements-client.txt": (
        "requirements-client.lock",
        ("allocation-policies", "allocator-client"),
    ),
}
CHECKSUMS = "SHA256SUMS"
_INSTANT = 1_580_601_600  # the same for every file, so that the same contents make the same archive
_DECLARED = re.compile(r"^([A-Za-z0-9][\w.-]*)==", re.MULTILINE)


def bundle(arguments: Sequence[str]) -> int:
    """Write the archive to the given path, by default in `.data`. Raises `StepFailed`."""
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        echo("./dev bundle takes one path: that of the archive to make (a .tar.gz)")
        return 2
    began = time.monotonic()
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"]
    name = f"allocator-{version}-{_platform()}"
    target = Path(*arguments) if arguments else PROJECT / ".data" / f"{name}.tar.gz"
    target.parent.mkdir(parents=True, exist_ok=True)
    python = VirtualEnvironment().ensure("dev")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / name
        fill(folder, python)
        pack(folder, target)
    size = target.stat().st_size / 1024**2
    echo(f"{target}: {size:.0f} MiB, made in {time.monotonic() - began:.0f} s")
    return 0


def fill(folder: Path, python: Path) -> None:
    """Write the contents of the archive and their checksums to `folder`. Raises `StepFailed`."""
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    echo("Building the project's wheels ...")
    for package in PACKAGES:
        build: list[str | Path] = [python, "-P", "-m", "hatchling", "build", "--target", "wheel"]
        _run(f"build {package}", [*build, "--directory", wheels], PROJECT / package)
    own = {path.name.split("-")[0].replace("_", "-"): path for path in wheels.glob("*.whl")}
    for name, (lock, ours) in INSTALLED.items():
        echo(f"Fetching the wheels of {lock} ...")
        _run(
            f"fetch the wheels of {lock}",
            [
                *(getattr(sys, "_base_executable", sys.executable), "-m", "pip", "download"),
                *("--requirement", PROJECT / lock, "--require-hashes", "--no-deps"),
                *("--only-binary", ":all:", "--dest", wheels, "--no-input", "--quiet"),
            ],
            PROJECT,
        )
        text = requirements((PROJECT / lock).read_text(), [own[each] for each in ours])
        (folder / name).write_text(text)
    for source, place in COPIED.items():
        if (PROJECT / source).is_dir():
            shutil.copytree(PROJECT / source, folder / place)
        else:
            shutil.copy(PROJECT / source, folder / place)
    echo("Building the documentation ...")
    if problem := site.problems(python, folder / "docs"):
        raise StepFailed("build the documentation", "read the output of mkdocs", log=problem)
    (folder / CHECKSUMS).write_text(checksums(folder))


def requirements(lock: str, own: Sequence[Path]) -> str:
    """Return the lock with the project's own wheels and their hashes.

    With it, pip installs nothing else.
    """
    lines = [lock.rstrip("\n")]
    for wheel in own:
        name, version = wheel.name.split("-")[:2]
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        lines.append(f"{name.replace('_', '-')}=={version} \\\n    --hash=sha256:{digest}")
    return "\n".join(lines) + "\n"


def checksums(folder: Path) -> str:
    """Return a line of `sha256sum` for each file below `folder`, in the order of their paths."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in paths
        if path.name != CHECKSUMS
    )


def pack(folder: Path, target: Path) -> None:
    """Write `folder` to a reproducible .tar.gz, with equal bytes for equal contents."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = _INSTANT
        member.mode = 0o755 if member.isdir() or member.name.endswith(".sh") else 0o644
        return member

    draft = target.with_name(f"{target.name}.new")
    try:
        with (
            draft.open("wb") as file,
            subprocess.Popen(
                ["gzip", "--no-name", "-6"], stdin=subprocess.PIPE, stdout=file
            ) as compressor,
        ):
            assert compressor.stdin is not None
            with tarfile.open(fileobj=compressor.stdin, mode="w|") as archive:
                archive.add(folder, arcname=folder.name, recursive=False, filter=plain)
                for path in sorted(folder.rglob("*")):
                    name = f"{folder.name}/{path.relative_to(folder).as_posix()}"
                    archive.add(path, arcname=name, recursive=False, filter=plain)
            compressor.stdin.close()
        if compressor.returncode:
            raise StepFailed("compress the archive", f"free space at {target.parent}")
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def declared(requirements: str) -> list[str]:
    """Return the names of the packages that a lock pins."""
    return _DECLARED.findall(requirements)


def _platform() -> str:
    """Return the tag of this Python and machine, for which the wheels are."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{python}-{sysconfig.get_platform().replace('-', '_')}"


def _run(step: str, command: Sequence[str | Path], cwd: Path) -> None:
    done = subprocess.run(
        command, cwd=cwd, env=inherited_environment(), capture_output=True, text=True
    )
    if done.returncode:
        raise StepFailed(step, "read the lines above", log=done.stdout + done.stderr)
