"""`./dev licences`, a page of every dependency's licence from its metadata."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from devtools.locks import LOCKS
from launcher.console import echo
from launcher.environment import VirtualEnvironment
from launcher.folders import PROJECT

PAGE = Path("docs/licences.md")
# The licences that the owner's choice for the project itself stays free with, as far as their
# packages are used here (imported, not changed). Another one needs a decision.
ACCEPTED = re.compile(
    r"\b(MIT|BSD|Apache|PSF|Python Software Foundation|ISC|Zlib|Unlicense|0BSD|CC0|MPL|LGPL|PostgreSQL"
    r"|Zope Public)",
    re.IGNORECASE,
)
# Packages under another licence, and why they may be used all the same.
DECIDED = {
    "axe-playwright-python": "its LICENSE is MIT and the axe-core in it MPL-2.0; tests alone use it",
    "ecos": "a peer that benchmarks run beside ours; nothing that is shipped uses it",
}
# Files of others that are part of the project, with their licence beside them.
VENDORED = [("idiomorph", "0BSD", "pages that keep themselves up to date")]
_READ = """
import importlib.metadata as metadata, sys
for name in sys.argv[1:]:
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        continue
    stated = about.get("License-Expression") or ""
    named = [c.rpartition(" :: ")[2] for c in about.get_all("Classifier") or ()
             if c.startswith("License :: ") and not c.endswith("OSI Approved")]
    text = (about.get("License") or "").strip()
    licence = stated or ", ".join(named) or (text if len(text) < 60 and "\\n" not in text else "")
    print(about["Name"], about["Version"], licence or "not stated", sep="\\t")
"""


def page(python: Path) -> str:
    """Return the page for the packages in the environment of `python`.

    A package that is locked for other machines only keeps its row of the stored page.
    """
    used_by = {name: lock for lock in reversed(LOCKS) for name in _names(lock)}
    stated = {_normal(name): (name, licence) for name, _, licence in _read(python, sorted(used_by))}
    rows = {
        key: f"| {name} | {licence} | {_WHERE[used_by[key]]} |"
        for key, (name, licence) in (_written() | stated).items()
        if key in used_by
    }
    rows |= {_normal(name): f"| {name} | {licence} | {use} |" for name, licence, use in VENDORED}
    return _HEAD + "\n".join(rows[key] for key in sorted(rows)) + "\n"


def _written() -> dict[str, tuple[str, str]]:
    """Return the packages of the stored page with their licences, by normalised name."""
    if not (PROJECT / PAGE).exists():
        return {}
    rows = [line.split(" | ") for line in (PROJECT / PAGE).read_text().splitlines()[_FIRST_ROW:]]
    return {_normal(name[2:]): (name[2:], licence) for name, licence, _ in rows}


def problems(python: Path) -> str:
    """Return a description of an outdated page or of licences without a decision."""
    current = page(python)
    if not (PROJECT / PAGE).exists() or (PROJECT / PAGE).read_text() != current:
        return f"{PAGE} is not what the locked packages state"
    undecided = [
        line
        for line in current.splitlines()[_FIRST_ROW:]
        if not ACCEPTED.search(line) and line.split()[1] not in DECIDED
    ]
    return "\n".join(f"not an accepted licence: {line}" for line in undecided)


def licences() -> int:
    """Write the page."""
    (PROJECT / PAGE).write_text(page(VirtualEnvironment().ensure("dev")))
    echo(f"{PAGE} is written.")
    return 0


_WHERE = {
    "requirements.lock": "service",
    "requirements-local.lock": "`./dev`",
    "requirements-client.lock": "client",
    "requirements-dev.lock": "tests and benchmarks",
}
_HEAD = """# Licences of the dependencies

Made by `./dev licences` from what each package states of itself; `./dev check` refuses a change that
brings another licence without this page. The licence of the project itself is not chosen yet.

| package | licence | used by |
| --- | --- | --- |
"""
_FIRST_ROW = _HEAD.count("\n")


def _names(lock: str) -> Iterator[str]:
    for line in (PROJECT / lock).read_text().splitlines():
        if found := re.match(r"([A-Za-z0-9._-]+)(\[[^]]*\])?==", line):
            yield _normal(found.group(1))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _read(python: Path, names: list[str]) -> list[list[str]]:
    done = subprocess.run([python, "-c", _READ, *names], capture_output=True, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]
