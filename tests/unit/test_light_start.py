"""Solvers and the typesetter, which only the processes that use them load."""

import os
import subprocess
import sys

import pytest

HEAVY = ("highspy", "numba", "scipy", "typst")
LOADED = """
import sys, django
django.setup()
import allocator_service.urls, allocator_service.celery, allocator_service.wsgi
print(*sorted({"highspy", "numba", "scipy", "typst"} & sys.modules.keys()))
"""


def run(script: str) -> str:
    """What a fresh Python process with the service's settings prints."""
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_the_service_is_loaded_without_solvers() -> None:
    assert run(LOADED) == ""


def test_the_owners_of_whole_tasks_are_known_without_solvers() -> None:
    """Web pages state what an hour costs, which depends on the owners of the servers."""
    assert run(LOADED.replace("allocator_service.urls", "policies.explaining.lending")) == ""


@pytest.mark.parametrize("name", HEAVY)
def test_each_of_them_would_be_seen(name: str) -> None:
    assert run(LOADED.replace("import sys, django", f"import sys, django, {name}")).split() >= [
        name
    ]
