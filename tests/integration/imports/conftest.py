"""A folder of files, and the commands as an operator runs them."""

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest
from django.core.management import CommandError, call_command


class Ran(NamedTuple):
    """What a command printed, its exit code, and what it said on standard error."""

    lines: list[str]
    code: int
    error: str


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., Ran]:
    """Run an import command on content that is written to a file."""

    def run(name: str, content: str | bytes, *options: str, pool: str = "lab") -> Ran:
        path = tmp_path / "file"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        out = StringIO()
        try:
            call_command(name, pool, str(path), *options, stdout=out)
        except CommandError as refusal:
            return Ran(out.getvalue().splitlines(), refusal.returncode, str(refusal))
        return Ran(out.getvalue().splitlines(), 0, "")

    return run
