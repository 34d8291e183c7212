"""Record answers, or compare today's with recorded ones; exit 1 where one differs."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from policies import PolicyError, allocation_to_document, current_placements_of, solve, verify
from tests.differential.cases import Case, cases

INCLUDE = ("placements", "certificate", "explanations", "schedule")


def answer(case: Case) -> dict[str, Any]:
    """What the code answers: a digest of the whole answer, its weighted shares, and whether it is valid.

    Long-term policies take three steps, each from the history of the one before; whole tasks are
    placed once more from where they run.
    """
    keys: dict[str, Any] = {"mode": case.mode, "options": case.options}
    try:
        first = solve(case.problem, case.policy, **keys)
        documents = [allocation_to_document(first, include=INCLUDE)]
        last = first
        if last.history is not None:
            for _ in range(2):
                last = solve(case.problem, case.policy, history=last.history, **keys)
                documents.append(allocation_to_document(last, include=INCLUDE))
        elif case.mode == "indivisible" and last.schedule is None:
            again = solve(case.problem, case.policy, running=current_placements_of(first), **keys)
            documents.append(allocation_to_document(again, include=INCLUDE))
    except PolicyError as error:
        return {"error": f"{error.code} {error.pointer}"}
    text = json.dumps(documents, sort_keys=True)
    rounds = first.certificate.rounds if first.certificate else ()
    return {
        "digest": hashlib.sha256(text.encode()).hexdigest(),
        "shares": [None if math.isnan(x) else x for x in first.weighted_share.tolist()],
        "open": sum(not item.proven for item in rounds),
        "valid": verify(case.problem, first).valid if first.history is None else True,
    }


def main(arguments: Sequence[str]) -> int:
    """Record or compare; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=2000, help="cases to record (2000)")
    parser.add_argument("--shares", type=float, default=None, metavar="TOLERANCE",
                        help="compare shares to this relative tolerance, not every bit")  # fmt: skip
    given = parser.parse_args(arguments)
    began = time.process_time()
    if given.what == "record":
        found = [{"number": case.number, **answer(case)} for case in cases(given.count)]
        given.file.write_text("".join(json.dumps(item) + "\n" for item in found))
        print(f"{len(found)} answers in {time.process_time() - began:.0f} processor seconds")
        return 0
    stored = [json.loads(line) for line in given.file.read_text().splitlines()]
    wrong: Counter[str] = Counter()
    for before, case in zip(stored, cases(len(stored)), strict=True):
        difference = _difference(before, {"number": case.number, **answer(case)}, given.shares)
        if difference:
            wrong[f"{case.policy} {case.mode}"] += 1
            print(f"case {case.number}: {case.policy} {case.mode} {case.options}: {difference}")
    print(f"{len(stored)} answers compared in {time.process_time() - began:.0f} processor seconds, "
          f"{wrong.total()} differ: {dict(wrong)}")  # fmt: skip
    return 1 if wrong else 0


def _difference(before: dict[str, Any], now: dict[str, Any], tolerance: float | None) -> str:
    if before == now:
        return ""
    if tolerance is None or "error" in before or "error" in now:
        names = [name for name in {*before, *now} if before.get(name) != now.get(name)]
        return f"other {', '.join(sorted(names))}: {now.get('error', '')}"
    old, new = np.array(before["shares"], float), np.array(now["shares"], float)
    with np.errstate(invalid="ignore"):
        apart = float(
            np.nan_to_num(np.abs(new - old) / np.maximum(np.abs(old), 1e-300)).max(initial=0)
        )
    if apart > tolerance:
        return f"weighted shares differ by {apart:.3g}, relative"
    if now["open"] > before["open"] or not now["valid"]:
        return f"open rounds {before['open']} -> {now['open']}, valid: {now['valid']}"
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
