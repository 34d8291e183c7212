"""`./dev check`: everything that must hold before a change is committed, and how to mend it."""

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
# Enough for the production settings to be judged; nothing here is connected to or kept.
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
    """Something that must hold: `problem()` returns what is wrong with it, or an empty string."""

    name: str
    problem: Callable[[], str]
    mend: str


def check() -> int:
    """Run every check, even after one has failed; 0 when all hold."""
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
    """The checks, run with the tools beside the interpreter `python`."""
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
    """What a command printed if it failed, else an empty string."""
    done = subprocess.run(
        command, cwd=PROJECT, env={**inherited_environment(), **env}, capture_output=True, text=True
    )
    return (done.stdout + done.stderr or "it failed silently") if done.returncode else ""


def _openapi_drift(python: Path) -> str:
    """How the committed OpenAPI document differs from the one that the code describes."""
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
