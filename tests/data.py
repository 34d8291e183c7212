"""Where the published traces are that some tests read; none of them is in the project."""

import os
from pathlib import Path

import pytest

from launcher.folders import PROJECT

DATA = Path(os.environ.get("ALLOCATOR_DATA_DIR", PROJECT / "../shared/data"))


def trace(*parts: str) -> Path:
    """A file of the traces; where it is not there, the test is skipped and says so."""
    path = DATA.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"the trace is not at {path}; set ALLOCATOR_DATA_DIR to where it is")
    return path
