"""The release before: the commit that `docs/releasing.md` has written down, and its migrations."""

import json
import subprocess
from pathlib import Path

PROJECT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("previous_release.json")
RELEASE = json.loads(FILE.read_text())
COMMIT: str = RELEASE["commit"]
# The last migration of each app that it has.
MIGRATIONS: dict[str, str] = RELEASE["migrations"]
# What of it runs; its dependencies are those of this tree.
PARTS = ("policies", "allocator_service", "api", "manage.py", "pyproject.toml", "docs/openapi.yaml")


class Unavailable(Exception):
    """This copy of the project lacks the commit: it is no clone, or a shallow one."""


def unpack(folder: Path) -> Path:
    """Put the release's sources into `folder`, which is returned. Raises `Unavailable`."""
    archive = folder / "release.tar"
    done = _git("archive", "--output", str(archive), COMMIT, *PARTS)
    if done.returncode:
        raise Unavailable(done.stderr.strip())
    subprocess.run(["tar", "--extract", "--file", archive, "--directory", folder], check=True)
    archive.unlink()
    return folder


def last_migrations() -> dict[str, str]:
    """The last migration of each app in the commit itself. Raises `Unavailable`."""
    done = _git("ls-tree", "-r", "--name-only", COMMIT, "allocator_service")
    if done.returncode:
        raise Unavailable(done.stderr.strip())
    found: dict[str, str] = {}
    for path in map(Path, done.stdout.splitlines()):
        if path.parent.name == "migrations" and path.stem[:1].isdigit():
            app = path.parent.parent.name
            found[app] = max(found.get(app, ""), path.stem)
    return found


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=False
    )
