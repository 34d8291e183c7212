"""`./dev docs`, which builds the documentation as a site and checks its links."""

import subprocess
import tempfile
from pathlib import Path

from launcher.console import echo
from launcher.environment import VirtualEnvironment
from launcher.folders import PROJECT
from launcher.processes import inherited_environment

SITE = Path(".data/site")
# Material for MkDocs advertises its makers' next project on each build.
_QUIET = {"NO_MKDOCS_2_WARNING": "1"}


def docs() -> int:
    """Build the site, and return 0 if it has no problems."""
    problem = problems(VirtualEnvironment().ensure("dev"), PROJECT / SITE)
    echo(problem or f"{SITE}/index.html is the documentation; its search needs the folder served.")
    return 1 if problem else 0


def problems(python: Path, folder: Path | None = None) -> str:
    """Return the problems of pages, links and navigation, or an empty string.

    The site is stored in `folder`, if one is given.
    """
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            [python, "-m", "mkdocs", "build", "--strict", "--site-dir", folder or scratch],
            cwd=PROJECT,
            env={**inherited_environment(), **_QUIET},
            capture_output=True,
            text=True,
        )
    return (done.stdout + done.stderr or "it failed silently") if done.returncode else ""
