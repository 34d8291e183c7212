"""Compute the papers' tables and figures again, and print their numbers beside ours."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from papers.finding import Finding
from papers.output import draw, text_of, write_json, write_page
from papers.studies import STUDIES, reproduce
from policies import ProblemError

FINE, UNUSABLE = 0, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Reproduce the named tables and figures and return the exit code.

    It is 0, or 2 for a name, trace or folder that cannot be used.
    """
    given = _parser().parse_args(arguments)
    if not given.names:
        for name, study in STUDIES.items():
            print(f"{name:12} {study.title}")
        return FINE
    names = list(STUDIES) if given.names == ["all"] else given.names
    unknown = [name for name in names if name not in STUDIES]
    if unknown:
        return _unusable(f"{unknown[0]}: there are {', '.join(STUDIES)}, and all")
    try:
        return _reproduce(names, given.folder, given.page)
    except OSError as error:
        return _unusable(str(error))


def _reproduce(names: Sequence[str], folder: Path | None, page: Path | None) -> int:
    """Print each finding.

    A missing trace does not stop findings that need none.
    """
    data = os.environ.get("ALLOCATOR_DATA_DIR")
    findings, missing = [], []
    for place, name in enumerate(names, start=1):
        print(f"{place} of {len(names)}: {STUDIES[name].title}", file=sys.stderr)
        try:
            finding = reproduce(name, Path(data) if data else None)
        except ProblemError as error:
            missing.append(str(error))
            continue
        findings.append(finding)
        print(text_of(finding), end="\n\n", flush=True)
        if folder is not None and not _written(finding, folder):
            print("matplotlib is not installed: no pictures", file=sys.stderr)
    if missing:
        return _unusable("\n".join(missing))
    if page is not None:
        write_page(findings, page)
    return FINE


def _written(finding: Finding, folder: Path) -> bool:
    """Write the finding into a folder and return False if pictures cannot be drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(finding, folder)
    return draw(finding, folder) is not None


def _unusable(why: str) -> int:
    print(why, file=sys.stderr)
    return UNUSABLE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m papers",
        description=__doc__ + " Traces are read from the folder that ALLOCATOR_DATA_DIR names.",
        epilog="Exit code 0: fine; 2: unusable input.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which, or all; a list if none")
    parser.add_argument(
        "--folder", type=Path, help="also write JSON, and pictures where matplotlib is installed"
    )
    parser.add_argument("--page", type=Path, help="also write a page of all that was asked for")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
