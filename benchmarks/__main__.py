"""Benchmarks on the command line, ``python -m benchmarks [--quick] [--json FILE] [name ...]``."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path

# Both sides get one thread: cores are shared, and a second one of BLAS slows small matrices down.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks import (
    backtests,
    billing,
    ceei,
    changes,
    exact_drfh,
    export,
    fairness,
    filling,
    gavel,
    http,
    idle,
    intake,
    ledger,
    leximin,
    long_term,
    reads,
    simulation,
    tda,
)
from benchmarks.measurement import Row, print_table
from policies import warm

BENCHMARKS: dict[str, Callable[..., list[Row]]] = {
    "exact-drfh": exact_drfh.measure,
    "ceei": ceei.measure,
    "leximin": leximin.measure,
    "gavel": gavel.measure,
    "filling": filling.measure,
    "long-term": long_term.measure,
    "simulation": simulation.measure,
    "http": http.measure,
    "idle": idle.measure,
    "reads": reads.measure,
    "changes": changes.measure,
    "intake": intake.measure,
    "fairness": fairness.measure,
    "export": export.measure,
    "usage": ledger.measure_usage,
    "metering": ledger.measure_metering,
    "windows": ledger.measure_windows,
    "reports": ledger.measure_reports,
    "billing": billing.measure,
    "closing": billing.measure_closing,
    "tda": tda.measure,
    "backtests": backtests.measure,
}


def main() -> int:
    """Measure, print one table, and with ``--json`` write the rows. Returns 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", choices=[*BENCHMARKS, []], help="which; all if none")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer repetitions")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="also write the rows as JSON; those of benchmarks that did not run stay in FILE",
    )
    arguments = parser.parse_args()
    # Compiling would be part of the first times.
    warm()
    measured: dict[str, list[Row]] = {}
    for name in arguments.name or BENCHMARKS:
        measured[name] = BENCHMARKS[name](quick=arguments.quick)
    rows = [row for several in measured.values() for row in several]
    print_table(rows)
    if arguments.json:
        _write(arguments.json, measured, quick=arguments.quick)
    return 0 if all(row.met for row in rows) else 1


def _write(file: Path, measured: dict[str, list[Row]], *, quick: bool) -> None:
    """Write the rows of each benchmark to the file, in the order of ``BENCHMARKS``."""
    held = json.loads(file.read_text()) if file.exists() else {}
    machine = {
        "system": platform.platform(terse=True),
        "architecture": platform.machine(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
    }
    for name, rows in measured.items():
        documents = [row.to_document() for row in rows]
        held[name] = {"machine": machine, "quick": quick, "rows": documents}
    ordered = {name: held[name] for name in BENCHMARKS if name in held}
    file.write_text(json.dumps(ordered, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
