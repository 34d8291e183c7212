"""Runs the shell lines of a guide as they stand, against a service of the tests."""

import os
import re
import subprocess
import sys
from pathlib import Path

from launcher.folders import PROJECT
from tests.live.service import LiveService

GUIDES = PROJECT / "docs" / "guides"


def run_guide(
    name: str,
    *,
    service: LiveService,
    folder: Path,
    changes: dict[str, str] | None = None,
    **env: str,
) -> str:
    """What the guide's `sh` blocks print, run one after the other in `folder`.

    `allocator-agent` is the one of this tree; `changes` are addresses that a reader has elsewhere.
    """
    blocks = re.findall(r"```sh\n(.*?)```", (GUIDES / name).read_text(), re.DOTALL)
    lines = "".join(blocks).replace("http://localhost:8000", service.url)
    for old, new in (changes or {}).items():
        lines = lines.replace(old, new)
    programs = folder / "bin"
    programs.mkdir()
    program = programs / "allocator-agent"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m allocator_agent "$@"\n')
    program.chmod(0o755)
    path = f"{programs}:{env.pop('PATH', os.environ['PATH'])}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", lines],
        env={**os.environ, **env, "PATH": path, "PYTHONPATH": str(PROJECT / "agent")},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout.strip()
