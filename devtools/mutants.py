"""`./dev mutants`, which makes selected mistakes in critical modules that a test must detect.

`tests/mutants/*.toml` lists them. `file` is the module, `tests` are those that must fail, and every
`[[mutant]]` has a `name`, the `old` text, the `new` text and, if they differ, its own `tests`.
A mutant is made in a copy of the project, never in the project itself.
"""

import os
import re
import shutil
import subprocess
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from launcher import folders
from launcher.console import StepFailed, echo
from launcher.environment import VirtualEnvironment
from launcher.folders import PROJECT
from launcher.processes import inherited_environment
from launcher.servers import Servers
from launcher.supervisor import interrupt_on_signals

LISTS = Path("tests/mutants")
# Excluded from a copy: data, installed files and generated files.
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".data", "__pycache__", ".*_cache", "node_modules"
)
USAGE = """Usage: ./dev mutants [LIST | LIST/NAME ...]

Make mistakes in critical modules, one at a time in a copy of the project. A test must fail for each.
Without a name, all mutants run."""
SECONDS = 900.0  # a mutant that runs longer is detected

_TESTS_PASSED, _TESTS_FAILED = 0, 1


@dataclass(frozen=True)
class Mutant:
    """A mistake that replaces `old` by `new` in the module `file`, for which `tests` must fail."""

    name: str
    file: Path
    old: str
    new: str
    tests: tuple[str, ...]

    def misplaced(self, project: Path) -> str:
        """Return why the mutant cannot be made in a project, or an empty string."""
        path = project / self.file
        if not path.is_file():
            return f"there is no {self.file}"
        count = path.read_text().count(self.old)
        if count != 1:
            return f"its old text stands {count} times in {self.file}, not once"
        missing = [test for test in self.tests if not (project / test).exists()]
        return f"there is no {missing[0]}" if missing else ""


def mutants(arguments: Sequence[str]) -> int:
    """Run the mutants of the given lists or names, by default all.

    Returns 0 if each is detected. Raises `StepFailed` for an unknown name, and if the tests fail without
    a mutant.
    """
    known = read(PROJECT / LISTS)
    if not {"-h", "--help"}.isdisjoint(arguments):
        print(f"{USAGE}\n\nLists in {LISTS}: {', '.join(_lists(known))}.")
        return 0
    chosen = _chosen(known, arguments)
    lost = {each.name: problem for each in chosen if (problem := each.misplaced(PROJECT))}
    for name, problem in lost.items():
        print(f"LOST     {name}: {problem}", flush=True)
    python = VirtualEnvironment().ensure("dev")
    interrupt_on_signals()
    folder = folders.fresh("mutants")
    try:
        with Servers(folder, durable=False, tests=True) as servers:
            copy = Path(shutil.copytree(PROJECT, folder.path / "project", ignore=LEFT_OUT))
            bench = Bench(copy, [str(python), "-m", "pytest", "--reuse-db"], servers.environment)
            survivors = _run(bench, [each for each in chosen if each.name not in lost])
    finally:
        folder.remove()
    noticed = len(chosen) - len(lost) - len(survivors)
    print(f"{noticed} of {len(chosen)} mutants were noticed.")
    if survivors:
        print(f"Survived: {', '.join(survivors)}: add a test that fails for each.")
    if lost:
        print(f"Lost: {', '.join(lost)}: bring the lists in {LISTS} up to date.")
    return 1 if survivors or lost else 0


def read(lists: Path) -> list[Mutant]:
    """Read the mutants of all lists, named `list/mutant`. Raises `StepFailed` for a malformed list."""
    found: list[Mutant] = []
    for path in sorted(lists.glob("*.toml")):
        try:
            content = tomllib.loads(path.read_text())
            found += [
                Mutant(
                    f"{path.stem}/{each['name']}",
                    Path(content["file"]),
                    each["old"],
                    each["new"],
                    tuple(each.get("tests", content["tests"])),
                )
                for each in content["mutant"]
            ]
        except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
            raise StepFailed(f"read {path}", f"correct it: {error!r}") from error
    return found


class Bench:
    """A copy of the project in which one mutant at a time is made and the tests are run."""

    def __init__(
        self, project: Path, command: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self._project = project
        self._command = list(command)
        self._environment = {
            **inherited_environment(),
            **environment,
            # The bytecode of a mutant must not be taken for the module's.
            "PYTHONDONTWRITEBYTECODE": "1",
            # Read by tests.examples, because the search for the smallest example takes minutes.
            "ALLOCATOR_UNSHRUNK": "1",
        }

    def fails(self, tests: Sequence[str]) -> str:
        """Return the first failing test, or an empty string. Raises `StepFailed` if none could run."""
        options = ("-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider")
        try:
            done = subprocess.run(
                [*self._command, *options, *tests],
                cwd=self._project,
                env=self._environment,
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"no answer within {SECONDS:.0f} s"
        first = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        if done.returncode == _TESTS_PASSED:
            return ""
        if done.returncode != _TESTS_FAILED or first is None or "::" not in first[1]:
            raise StepFailed(
                f"run {' '.join(tests)}",
                "the tests could not be run at all: read the lines above",
                log=done.stdout + done.stderr,
            )
        return first[1]

    def noticed_by(self, mutant: Mutant) -> str:
        """Return the test that fails with the mutant, or an empty string if it survives."""
        path = self._project / mutant.file
        original, times = path.read_text(), path.stat()
        try:
            path.write_text(original.replace(mutant.old, mutant.new))
            return self.fails(mutant.tests)
        finally:
            path.write_text(original)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _run(bench: Bench, chosen: Sequence[Mutant]) -> list[str]:
    """Run the mutants, print a verdict on each, and return the names of those that survive."""
    tests = sorted({test for each in chosen for test in each.tests})
    if not tests:
        return []
    echo(f"Running the tests of {len(chosen)} mutants without any ...")
    if failed := bench.fails(_without_parts_of_others(tests)):
        raise StepFailed(f"run the tests without a mutant ({failed})", "mend that test first")
    survivors = []
    for each in chosen:
        began = time.monotonic()
        test = bench.noticed_by(each)
        verdict = "noticed " if test else "SURVIVED"
        where = f" by {test}" if test else ""
        print(f"{verdict} {each.name}{where} ({time.monotonic() - began:.0f} s)", flush=True)
        if not test:
            survivors.append(each.name)
    return survivors


def _without_parts_of_others(tests: Sequence[str]) -> list[str]:
    """Return these files and folders without those that lie in another one of them."""
    paths = {Path(test) for test in tests}
    return sorted(str(path) for path in paths if paths.isdisjoint(path.parents))


def _chosen(known: Sequence[Mutant], names: Sequence[str]) -> list[Mutant]:
    for name in names:
        if not any(_is_called(each, name) for each in known):
            lists = ", ".join(_lists(known))
            raise StepFailed(
                f"find the mutant {name}",
                f"name a list ({lists}) or a mutant as LIST/NAME: they are in {LISTS}",
            )
    return [each for each in known if not names or any(_is_called(each, name) for name in names)]


def _lists(known: Sequence[Mutant]) -> Iterator[str]:
    yield from dict.fromkeys(each.name.partition("/")[0] for each in known)


def _is_called(mutant: Mutant, name: str) -> bool:
    return name in (mutant.name, mutant.name.partition("/")[0])
