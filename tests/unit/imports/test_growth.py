"""Time to read the worst content of a format grows with its length, not with the square of it."""

import gc
import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from allocator_service.core.errors import DomainError
from allocator_service.core.quantities import Resource
from allocator_service.imports.csv_files import csv_tenants
from allocator_service.imports.kinds import read_nodes, read_usage, read_workloads
from allocator_service.imports.rows import Owner
from tests.examples import long, thorough

LAB = [Resource("cpu", "core"), Resource("memory", "GiB"), Resource("gpu", "")]
LARGEST_BODY = 2**25
# Bytes. By the weekly command four times as much is an API's largest body.
SMALLEST = LARGEST_BODY // 4 if thorough() else 2**18
# A reader in linear time takes 4 times as long for 4 times as much, one in quadratic time 16 times.
LARGEST_RATIO = 8


def gres(text: str) -> str:
    return json.dumps({"nodes": [{"name": "n", "cpus": 1, "real_memory": 1, "gres": text}]})


def sinfo(names: int, **group: object) -> str:
    one = {"nodes": {"nodes": ["n"] * names}, "cpus": {}, "memory": {}, **group}
    return json.dumps({"sinfo": [one]})


def queue(size: int, job: Callable[[int], dict[str, object]]) -> str:
    shape = {
        "job_state": "PENDING",
        "account": "a",
        "partition": "p",
        "tres_req_str": "cpu=4,mem=1G,node=2",
        "node_count": 2,
    }
    node = {"name": "n", "partitions": ["p"], "cpus": 4, "real_memory": 4096}
    count = max(1, size // 200)
    jobs = [{**shape, **job(number)} for number in range(min(count, 150_000))]
    return json.dumps({"jobs": jobs, "nodes": [node]})


def pod(**spec: object) -> str:
    return json.dumps({"items": [{"metadata": {"name": "p", "namespace": "a"}, "spec": spec}]})


def affinity(size: int) -> str:
    values = [str(number) for number in range(size // 20)]
    terms = [
        {"matchExpressions": [{"key": "k", "operator": "In", "values": values} for _ in range(2)]}
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    containers = [{"resources": {"requests": {"cpu": "1"}}}]
    return pod(affinity={"nodeAffinity": required}, containers=containers)


def table(header: str, row: Callable[[int], str], size: int) -> str:
    rows = max(1, size // (len(row(0)) + 5))
    return "\n".join([header, *(row(number) for number in range(min(rows, 150_000)))])


WORST: dict[str, tuple[Callable[[str], object], Callable[[int], str]]] = {
    "slurm, open brackets": (
        lambda text: read_nodes(text, "slurm", LAB, Owner()),
        lambda size: gres("(" * size),
    ),
    "slurm, a model that ends wrongly": (
        lambda text: read_nodes(text, "slurm", LAB, Owner()),
        lambda size: gres("gpu:" + "a" * size + "!"),
    ),
    "slurm, a kind that ends wrongly": (
        lambda text: read_nodes(text, "slurm", LAB, Owner()),
        lambda size: gres("g" * size + "!"),
    ),
    "slurm, many generic resources": (
        lambda text: read_nodes(text, "slurm", LAB, Owner()),
        lambda size: gres("gpu:1," * (size // 6)),
    ),
    "slurm, one name often": (
        lambda text: read_nodes(text, "slurm", LAB, Owner()),
        lambda size: sinfo(min(size // 10, 150_000), features={"total": ["a"] * (size // 10)}),
    ),
    "slurm, many names and features": (
        lambda text: read_nodes(text, "slurm", LAB, Owner()),
        lambda size: json.dumps(
            {
                "sinfo": [
                    {
                        "nodes": {"nodes": [f"n{number}" for number in range(size // 20)]},
                        "cpus": {"minimum": 1, "maximum": 1},
                        "memory": {"minimum": 1, "maximum": 1},
                        "features": {"total": [f"f{number}" for number in range(size // 20)]},
                    }
                ]
            }
        ),
    ),
    "slurm, many jobs": (
        lambda text: read_workloads(text, "slurm", LAB, Owner()),
        lambda size: queue(size, lambda number: {"job_id": number, "account": f"a{number % 100}"}),
    ),
    "slurm, many jobs that start together": (
        lambda text: read_workloads(text, "slurm", LAB, Owner()),
        lambda size: queue(size, lambda number: {"job_id": number, "het_job_id": number // 2}),
    ),
    "slurm, many shapes": (
        lambda text: read_workloads(text, "slurm", LAB, Owner()),
        lambda size: queue(size, lambda number: {"tres_req_str": f"cpu={number + 1}"}),
    ),
    "slurm, one long item": (
        lambda text: read_workloads(text, "slurm", LAB, Owner()),
        lambda size: '{"jobs": [' + "[1," * (size // 3),
    ),
    "slurm, a long list of array tasks": (
        lambda text: read_workloads(text, "slurm", LAB, Owner()),
        lambda size: queue(1, lambda _: {"array_task_string": "1-2," * (size // 4)}),
    ),
    "slurm, nodes of a switch": (
        lambda text: read_nodes(text, "slurm", LAB, Owner()),
        lambda size: gres("") + "\nSwitchName=s Level=0 Nodes=" + "[" * size,
    ),
    "slurm, switches of many nodes": (
        lambda text: read_nodes(text, "slurm", LAB, Owner()),
        lambda size: gres("") + "\nSwitchName=s Level=0 Nodes=n[1-65000]" * (size // 2**14),
    ),
    "kubernetes, affinity with many values": (
        lambda text: read_workloads(text, "kubernetes", LAB, Owner()),
        affinity,
    ),
    "kubernetes, many containers": (
        lambda text: read_workloads(text, "kubernetes", LAB, Owner()),
        lambda size: pod(containers=[{"resources": {"requests": {"cpu": "1"}}}] * (size // 40)),
    ),
    "kubernetes, many labels": (
        lambda text: read_nodes(text, "kubernetes", LAB, Owner()),
        lambda size: json.dumps(
            {
                "items": [
                    {"metadata": {"name": "n", "labels": {str(n): "" for n in range(size // 12)}}}
                ]
            }
        ),
    ),
    "csv, many columns": (
        lambda text: read_nodes(text, "csv", LAB, Owner()),
        lambda size: ",".join(f"labels.{number}" for number in range(size // 14)) + "\n",
    ),
    "csv, many columns of quantities": (
        lambda text: read_nodes(text, "csv", LAB, Owner()),
        lambda size: ",".join(f"capacity.{number}" for number in range(size // 16)) + "\n",
    ),
    "csv, one long cell": (
        lambda text: read_nodes(text, "csv", LAB, Owner()),
        lambda size: f"name,capacity.cpu\n{'n' * size},1\n",
    ),
    "csv, an open quote": (
        lambda text: read_nodes(text, "csv", LAB, Owner()),
        lambda size: 'name,capacity.cpu\n"' + "n\n" * (size // 2),
    ),
    "csv, many tenants": (
        csv_tenants,
        lambda size: table("slug,name", lambda number: f"t{number:06},T", size),
    ),
    "csv, usage": (
        lambda text: read_usage(text, "csv", LAB, Owner()),
        lambda size: table(
            "id,tenant,start,end,resources.cpu",
            lambda number: f"{number},a,2026-11-20T00:00:00Z,2026-11-20T01:00:00Z,1",
            size,
        ),
    ),
    "sacct, many trackable resources": (
        lambda text: read_usage(text, "sacct", LAB, Owner()),
        lambda size: (
            "JobIDRaw|Account|Start|End|AllocTRES\n1|a|2026-11-20T00:00:00|2026-11-20T01:00:00|"
            + ",".join(f"gres/g{number}:m=1" for number in range(size // 16))
        ),
    ),
    "sacct, one long number": (
        lambda text: read_usage(text, "sacct", LAB, Owner()),
        lambda size: (
            "JobIDRaw|Account|Start|End|AllocTRES\n1|a|2026-11-20T00:00:00|2026-11-20T01:00:00|cpu="
            + "1" * size
        ),
    ),
    "swf, one long line": (
        lambda text: read_usage(text, "swf", LAB, Owner()),
        lambda size: "; UnixStartTime: 0\n" + "1 " * (size // 2),
    ),
    "swf, blanks before a comment": (
        lambda text: read_usage(text, "swf", LAB, Owner()),
        lambda size: ";" + " " * size + "\n; UnixStartTime: 0\n",
    ),
}


def seconds(read: Callable[[str], object], text: str) -> float:
    """The least of three runs, in processor time of this thread."""
    runs = []
    gc.disable()  # it would look through all that other tests have left
    try:
        for _ in range(3):
            began = time.thread_time()
            suppressed(read, text)
            runs.append(time.thread_time() - began)
    finally:
        gc.enable()
    return min(runs)


@pytest.mark.parametrize("name", WORST)
def test_time_grows_with_the_length(name):
    read, worst = WORST[name]
    growth = []
    for _ in range(3):  # again if another process took the caches meanwhile
        once, twice, fourfold = (seconds(read, worst(SMALLEST * times)) for times in (1, 2, 4))
        print(f"{name}: {once:.4f} s, {twice:.4f} s, {fourfold:.4f} s")
        growth.append(fourfold / max(once, 0.01))
        if growth[-1] < LARGEST_RATIO:
            return
    raise AssertionError(f"{growth} times as long for 4 times as much")


@long
@pytest.mark.parametrize("name", WORST)
def test_other_threads_go_on_while_the_largest_body_is_read(name):
    """The longest time for which one call of C keeps the interpreter, as another thread sees it."""
    read, worst = WORST[name]
    text = worst(LARGEST_BODY)
    reading = threading.Thread(target=lambda: suppressed(read, text))
    longest, last = 0.0, time.perf_counter()
    reading.start()
    while reading.is_alive():
        time.sleep(0.001)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    print(f"{name}: held for {longest:.3f} s at most")
    assert longest < 1


def suppressed(read: Callable[[str], object], text: str) -> None:
    with suppress(DomainError):
        read(text)
