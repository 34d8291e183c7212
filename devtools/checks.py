"""`./dev check`, which runs all checks of a change and describes how to repair failures."""

import difflib
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from devtools import licences, locks, site
from launcher.environment import VirtualEnvironment
from launcher.folders import PROJECT
from launcher.processes import inherited_environment

OPENAPI = Path("docs/openapi.yaml")
_TEST_SETTINGS = {"DJANGO_SETTINGS_MODULE": "allocator_service.settings.test"}
# Enough to check the production settings. Nothing connects to these addresses.
_PRODUCTION_SETTINGS = {
    "DJANGO_SETTINGS_MODULE": "allocator_service.settings.production",
    "SECRET_KEY": "only-for-check-deploy-" + "aB3$" * 16,
    "ALLOWED_HOSTS": "allocator.example.org",
    "DATABASE_URL": "postgresql://allocator@localhost:1/none",
    "MIGRATION_DATABASE_URL": "postgresql://allocator_owner@localhost:1/none",
    "REDIS_URL": "redis://localhost:1/0",
}


@dataclass(frozen=True)
class Check:
    """A check of the project.

    Attributes:
        name: Name in the output.
        problem: Function that returns a description of the failure, or an empty string.
        mend: How to repair a failure.
    """

    name: str
    problem: Callable[[], str]
    mend: str


def check() -> int:
    """Run every check, even after a failure, and return 0 if all hold."""
    python = VirtualEnvironment().ensure("dev")
    failed = []
    for each in checks(python):
        began = time.monotonic()
        problem = each.problem()
        verdict = "FAILED" if problem else "ok"
        print(f"{verdict:<6} {each.name} ({time.monotonic() - began:.1f} s)", flush=True)
        if problem:
            failed.append(each)
            print(problem, flush=True)
    for each in failed:
        print(f"To mend {each.name}: {each.mend}")
    print("Some checks failed." if failed else "All checks hold.")
    return 1 if failed else 0


def checks(python: Path) -> list[Check]:
    """Return the checks, which use the tools beside the interpreter `python`."""
    tool = python.parent

    def command(*parts: str | Path, env: dict[str, str] | None = None) -> Callable[[], str]:
        return lambda: _failure([*parts], env or _TEST_SETTINGS)

    return [
        Check(
            "locks",
            lambda: "\n".join(f"{name} is not up to date" for name in locks.outdated()),
            "./dev lock",
        ),
        Check(
            "licences",
            lambda: licences.problems(python),
            f"./dev licences, and decide about a new one: {licences.PAGE}",
        ),
        Check(
            "ruff check",
            command(tool / "ruff", "check", "--quiet", ".", "dev"),
            ".venv/bin/ruff check --fix . dev, and by hand what it leaves",
        ),
        Check(
            "ruff format",
            command(tool / "ruff", "format", "--check", "--quiet", ".", "dev"),
            ".venv/bin/ruff format . dev",
        ),
        Check("mypy", command(tool / "mypy", "."), "correct the types it names"),
        Check(
            "import-linter",
            # The agent and the client are packages of their own, in folders of their own.
            command(
                *(tool / "lint-imports", "--no-cache"),
                env={**_TEST_SETTINGS, "PYTHONPATH": "agent:client"},
            ),
            "move the code: the layers and who may import whom are in pyproject.toml",
        ),
        Check(
            "migrations",
            command(python, "manage.py", "makemigrations", "--check", "--dry-run"),
            "./dev manage makemigrations",
        ),
        Check(
            "OpenAPI document",
            lambda: _openapi_drift(python),
            f"./dev manage spectacular --validate --fail-on-warn --file {OPENAPI}",
        ),
        Check(
            "client",
            command(python, "client/generate.py", "--check"),
            ".venv/bin/python client/generate.py, once the OpenAPI document is right",
        ),
        Check(
            "documentation",
            lambda: site.problems(python),
            "correct the links it names, and list new pages in mkdocs.yml",
        ),
        Check(
            "production settings",
            command(
                *(python, "manage.py", "check", "--deploy", "--fail-level", "WARNING"),
                env=_PRODUCTION_SETTINGS,
            ),
            "correct the settings it names",
        ),
    ]


def _failure(command: Sequence[str | Path], env: dict[str, str]) -> str:
    """Run a command, and return its output if it failed, otherwise an empty string."""
    done = subprocess.run(
        command, cwd=PROJECT, env={**inherited_environment(), **env}, capture_output=True, text=True
    )
    return (done.stdout + done.stderr or "it failed silently") if done.returncode else ""


def _openapi_drift(python: Path) -> str:
    """Return the differences of the committed OpenAPI document to the document of the code."""
    with tempfile.TemporaryDirectory() as scratch:
        generated = Path(scratch) / "openapi.yaml"
        problem = _failure(
            [
                *(python, "manage.py", "spectacular", "--validate", "--fail-on-warn"),
                "--file",
                generated,
            ],
            _TEST_SETTINGS,
        )
        if problem:
            return problem
        committed = PROJECT / OPENAPI
        old = committed.read_text().splitlines() if committed.exists() else []
        new = generated.read_text().splitlines()
    return "\n".join(difflib.unified_diff(old, new, str(OPENAPI), "the code", lineterm="", n=1))
