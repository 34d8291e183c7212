"""Runs the commands of a page as they stand, against a service of the tests.

A block that is not run with its page says so in a comment above it: `<!-- not run: why -->`, or
`<!-- run by: tests/... -->` where a test of its own does (`tests/unit/test_documented_commands.py`).
"""

import doctest
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from launcher.folders import PROJECT
from tests.live.service import LiveService

GUIDES = PROJECT / "docs" / "guides"
_BLOCK = re.compile(
    r"(?:^<!-- (not run|run by): ([^\n]+) -->\n)?^```(sh|console)\n(.*?)^```", re.M | re.S
)

_STEP = re.compile(
    r"(?:^<!-- (not run|run by): [^\n]+ -->\n)?^```sh\n(.*?)^```\n(?:\n^```text\n(.*?)^```)?",
    re.M | re.S,
)


@dataclass(frozen=True)
class Block:
    """Commands on a page: `sh` as they are typed, `console` with what they print.

    `note` is "not run" with the reason in `told`, "run by" with a test's path, or empty.
    """

    line: int
    language: str
    text: str
    note: str
    told: str


def blocks_of(text: str) -> list[Block]:
    """The blocks of commands of a page, in their order."""
    return [
        Block(
            text.count("\n", 0, found.start(3)) + 1,
            found[3],
            found[4],
            found[1] or "",
            found[2] or "",
        )
        for found in _BLOCK.finditer(text)
    ]


def session(page: Path) -> str:
    """The `sh` blocks of a page that are run with it, one after the other."""
    return "".join(
        block.text
        for block in blocks_of(page.read_text())
        if block.language == "sh" and not block.note
    )


def run_guide(
    name: str,
    *,
    service: LiveService,
    folder: Path,
    **env: str,
) -> str:
    """What the guide's `sh` blocks print, run one after the other in `folder`.

    `allocator-agent` is the one of this tree, `manage.py` that of the service.
    """
    return run_pages([GUIDES / name], service=service, folder=folder, **env)


def run_pages(
    pages: list[Path],
    *,
    service: LiveService,
    folder: Path,
    **env: str,
) -> str:
    """What the sessions of pages print, in one shell and in the order in which they are read.

    `./dev serve` finds the service running, `./dev manage` is a management command on it.
    """
    lines = "".join(map(session, pages)).replace("http://localhost:8000", service.url)
    done = _bash(
        *("-euo", "pipefail", "-c", lines),
        service=service, folder=folder, stderr=subprocess.PIPE, env=env,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout.strip()


def run_steps(
    page: Path,
    *,
    service: LiveService,
    folder: Path,
    changes: dict[str, str] | None = None,
    **env: str,
) -> list[str]:
    """Run the page's `sh` blocks in one shell; return what each printed.

    A `text` block right below one is what it prints, where `...` is anything, and is compared. `changes`
    are addresses that a reader has elsewhere.
    """
    mark = "\x1e"
    text = page.read_text().replace("http://localhost:8000", service.url)
    steps = [(found[2], found[3]) for found in _STEP.finditer(text) if not found[1]]
    script = f"printf '{mark}'\n".join(commands for commands, _ in steps)
    for old, new in (changes or {}).items():
        script = script.replace(old, new)
    done = _bash(
        *("-euo", "pipefail", "-c", script),
        service=service, folder=folder, stderr=subprocess.PIPE, env=env,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    printed = done.stdout.split(mark)
    for (commands, wanted), given in zip(steps, printed, strict=True):
        assert wanted is None or _CHECKER.check_output(wanted, given, _LIKE), (
            f"{commands}\n{given}\nand not\n{wanted}"
        )
    return printed


def run_session(name: str, *, service: LiveService, folder: Path, **env: str) -> None:
    """Run the guide's `console` blocks in one shell, and compare what each command prints.

    A command begins with `$ `; below it is what it prints, errors included, where `...` is anything.
    """
    text = (GUIDES / name).read_text().replace("http://localhost:8000", service.url)
    blocks = "".join(
        block.text for block in blocks_of(text) if block.language == "console" and not block.note
    )
    parts = [part.partition("\n") for part in re.split(r"^\$ ", blocks, flags=re.MULTILINE)[1:]]
    mark = "\x1e"
    script = "".join(
        f'was=$?; printf "{mark}"; (exit $was)\n{command}\n' for command, _, _ in parts
    )
    done = _bash("-c", script, service=service, folder=folder, stderr=subprocess.STDOUT, env=env)
    printed = done.stdout.split(mark)[1:]
    for (command, _, wanted), given in zip(parts, printed, strict=True):
        said = given or "\n"
        assert _CHECKER.check_output(wanted, said, _LIKE), (
            f"$ {command}\n{given}\nand not\n{wanted}"
        )


_CHECKER = doctest.OutputChecker()
_LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def _bash(
    *arguments: str, service: LiveService, folder: Path, stderr: int, env: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run bash where the programs of this tree are those that a reader installs."""
    programs = folder / "bin"
    programs.mkdir()
    for name, module in _PROGRAMS.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        program.chmod(0o755)
    managing = {**service.environment, "ALLOCATOR_PROCESS": "manage"}
    program = programs / "manage.py"
    program.write_text(
        f"#!{sys.executable}\nimport os, sys\nos.chdir({str(PROJECT)!r})\n"
        f"os.execve(sys.executable, [sys.executable, 'manage.py', *sys.argv[1:]], {managing!r})\n"
    )
    program.chmod(0o755)
    launcher = folder / "dev"
    launcher.write_text(
        '#!/bin/sh\ncase "$1" in\n'
        'serve|stop) ;;\nmanage) shift; exec manage.py "$@" ;;\n*) exit 2 ;;\nesac\n'
    )
    launcher.chmod(0o755)
    path = f"{programs}:{env.pop('PATH', os.environ['PATH'])}"
    sources = ":".join(str(PROJECT / package) for package in ("agent", "client", "."))
    return subprocess.run(
        ["bash", *arguments],
        env={**os.environ, **env, "PATH": path, "PYTHONPATH": sources},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        timeout=180,
        check=False,
    )


_PROGRAMS = {"allocator-agent": "allocator_agent", "alloc": "allocator_client.cli.main"}
