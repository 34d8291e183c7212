"""Alibaba's GPU cluster of 2023, with nodes and pods.

A pod lists the GPU models that it accepts. Its columns are name, CPU in thousandths, memory in MiB,
GPUs, thousandths of a GPU where it is one, accepted models (``|`` between them), quality of
service, phase, and seconds of creation, deletion and scheduling (empty: never). Source: Weng et
al., USENIX ATC 2023.
"""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from policies.errors import ProblemError
from policies.simulation.traces.generated import ServerRows
from policies.simulation.traces.lines import LineReader, TraceLineError, Unusable, number, require
from policies.simulation.traces.submitted import Submitted, Submitting

RESOURCES = ("cpu", "memory", "gpu")
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase",
    "creation_time", "deletion_time", "scheduled_time",
)  # fmt: skip
# Cores, MiB and GPUs: thousandths are what the files have.
MILLI = 1000


def read_alibaba_servers(path: str | Path) -> ServerRows:
    """Read the nodes, alike ones as one row.

    A label ``model`` names the GPUs.

    Raises:
        TraceLineError: a bad line: its number and why.
    """
    reader = LineReader(path, skip_bad_lines=False)
    shapes: Counter[tuple[float, float, float, str]] = Counter()
    for row in _rows(reader, NODE_COLUMNS):
        try:
            shape = (
                number(row["cpu_milli"], "cpu_milli", least=0) / MILLI,
                number(row["memory_mib"], "memory_mib", least=0),
                number(row["gpu"], "gpu", least=0),
            )
        except Unusable as error:
            reader.refuse(error)
        shapes[(*shape, row["model"])] += 1
    return ServerRows(
        resources=RESOURCES,
        capacity=np.array([shape[:3] for shape in shapes]).reshape(-1, 3),
        server_count=np.array(list(shapes.values()), dtype=np.int64),
        server_labels=tuple({"model": shape[3]} if shape[3] else {} for shape in shapes),
    )


def read_alibaba(path: str | Path, *, tenants: int = 20, skip_bad_lines: bool = False) -> Submitted:
    """Read the pods that ran, each as a task and a job of its own.

    The trace names no tenants. Here a pod is of ``tenant-<n>``, n the SHA-256 of its name modulo
    the number of tenants, so that every tenant has a similar mix. A pod is submitted when it is
    created and runs from its scheduling to its deletion. Pods that were never scheduled are left
    out and counted. Part of a GPU is that part of one GPU of the server, wherever it is. A pod with
    accepted models selects servers with one of them.

    Args:
        path: of the list of pods, packed with gzip or not.
        tenants: how many, at least 1.
        skip_bad_lines: count lines that cannot be read instead of stopping at the first.

    Raises:
        TraceLineError: a bad line: its number and why. ProblemError: no tenants.
    """
    if tenants < 1:
        raise ProblemError("trace.tenant", f"tenants is {tenants}; it must be 1 or more")
    reader, found = LineReader(path, skip_bad_lines=skip_bad_lines), Submitting(RESOURCES)
    for row in _rows(reader, POD_COLUMNS):
        try:
            created = number(row["creation_time"], "creation_time", least=0)
            if not row["scheduled_time"]:
                found.left_out["it was never scheduled"] += 1
                continue
            begun = number(row["scheduled_time"], "scheduled_time", least=0)
            ended = number(row["deletion_time"], "deletion_time", least=0)
            gpus = number(row["num_gpu"], "num_gpu", least=0)
            part = number(row["gpu_milli"], "gpu_milli", least=0)
            demand = (
                number(row["cpu_milli"], "cpu_milli", least=0) / MILLI,
                number(row["memory_mib"], "memory_mib", least=0),
                part / MILLI if gpus == 1 else gpus,
            )
            require(ended >= begun, f"it was deleted at {ended:g} and scheduled at {begun:g}")
        except Unusable as error:
            reader.refuse(error)
            continue
        if ended == begun or not any(demand):
            found.left_out["it ran for no time, or demands nothing"] += 1
            continue
        number_of = int(hashlib.sha256(row["name"].encode()).hexdigest(), 16) % tenants
        models = tuple(sorted(set(row["gpu_spec"].split("|")))) if row["gpu_spec"] else ()
        found.add(
            f"tenant-{number_of}",
            demand,
            created,
            ended - begun,
            job=row["name"],
            selector={"model": models} if models else None,
        )
    return found.done(reader)


def _rows(reader: LineReader, columns: tuple[str, ...]) -> Iterator[Mapping[str, str]]:
    rows = csv.reader(reader.lines(), strict=True)
    try:
        header = next(rows, [])
        if tuple(header) != columns:
            raise TraceLineError(1, f"the header must be {','.join(columns)}")
        for row in rows:
            if len(row) == len(columns):
                yield dict(zip(columns, row, strict=True))
            elif row:
                reader.refuse(Unusable(f"it has {len(row)} fields; it needs {len(columns)}"))
    except csv.Error as error:
        raise TraceLineError(reader.number, f"this is not CSV: {error}") from error
