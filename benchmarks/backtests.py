"""A sweep by two workers beside one, and a live decision during a sweep beside one without."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from benchmarks.http.service import POOL, Service
from benchmarks.measurement import Row

WEB_WORKERS = 1
SERVERS = 20
SEEDS = 16
# Two workers take at most 60 % of one's time; a decision at most half as long again.
SCALING_GOAL = 1 / 0.6
DECISION_GOAL = 1 / 1.5
SECONDS_BETWEEN = 0.3
ALL = "/api/v1/backtests/"

Answer = dict[str, float]


def measure(*, quick: bool = False) -> list[Row]:
    """Measure a sweep by one worker and by two, and decisions with and without a sweep.

    A sweep has sixteen simulations of one trace. The time of a decision is from the change of a workload
    until a decision that includes it is read. Everything runs on this machine. With two workers on two
    processors, decisions share these with a sweep that yields every processor that they need.
    """
    jobs = 300 if quick else 1_000
    service = Service(WEB_WORKERS)
    try:
        service.fill(SERVERS)
        _, tasks, by_one = _sweep(service, jobs=jobs)  # kernels are loaded, PostgreSQL is warm
        times: dict[int, list[float]] = {1: [], 2: []}
        apart = 0.0
        for _ in range(1 if quick else 3):
            times[1].append(_sweep(service, jobs=jobs)[0])
            with service.another("backtests"):
                _sweep(service, jobs=jobs)  # the other worker starts meanwhile
                seconds, _, by_two = _sweep(service, jobs=jobs)
                times[2].append(seconds)
                apart = max(apart, _apart(by_one, by_two))
        changes = 10 if quick else 40
        alone, decided_alone = _decisions(service, changes)
        with service.another("backtests"), _running_sweeps(service, jobs):
            during, decided_during = _decisions(service, changes)
    finally:
        service.stop()
    one, two = min(times[1]), min(times[2])
    spread = ", ".join(f"{each:.1f}" for each in (*times[1], *times[2]))
    return [
        Row(
            "a sweep by two workers", f"{SEEDS} simulations of {tasks} tasks", two, "one worker", one,
            apart, None if quick else SCALING_GOAL,
            f"{two / one:.0%} of its time; all: {spread} s",
        ),
        Row(
            "a decision during a sweep", f"{changes} changes, two workers sweep",
            statistics.median(during), "without a sweep", statistics.median(alone),
            _apart(decided_alone, decided_during), None if quick else DECISION_GOAL,
            f"p90 {_p90(during) * 1e3:.0f} ms beside {_p90(alone) * 1e3:.0f} ms",
        ),
    ]  # fmt: skip


def _question(jobs: int) -> dict[str, object]:
    lines = ["tenant,submit,duration,demand.cpu,demand.memory,tasks"]
    lines += [
        f"t{job % 10},{job * 60},{2000 + job % 700},{1 + job % 3},{2 + job % 5},100"
        for job in range(jobs)
    ]
    return {
        "trace": {"format": "csv", "content": "\n".join(lines)},
        "servers": [{"capacity": {"cpu": 32, "memory": 128}, "count": 200}],
        "policies": [{"name": "drfh", "options": {"placement": "two-choices"}}],
        "seeds": list(range(SEEDS)),
    }


def _sweep(service: Service, *, jobs: int) -> tuple[float, int, Answer]:
    """Run a sweep, and return its seconds, the tasks of a simulation and all means of the results.

    The service measures the seconds from the acceptance of the request. The poll is slow, because a fast
    one takes part of a processor.
    """
    path = service.client.post(ALL, _question(jobs)).headers["Location"]
    while True:
        found = service.client.get(path).body
        if found["status"] not in ("queued", "running"):
            break
        time.sleep(SECONDS_BETWEEN)
    if found["status"] != "succeeded":
        raise RuntimeError(f"the sweep {found['status']}: {found['error']}")
    begin, end = (datetime.fromisoformat(found[f"{name}_at"]) for name in ("created", "finished"))
    pool = service.client.get(f"{path}results/").body["columns"][0]["pool"]
    return (end - begin).total_seconds(), int(found["input"]["tasks"]), dict(_means(pool))


def _means(measured: dict[str, Any], place: str = "") -> Iterator[tuple[str, float]]:
    """Yield each mean of a column of results, with its path in the document."""
    for name, value in measured.items():
        if name == "mean":
            yield place, float(value)
        elif isinstance(value, dict):
            yield from _means(value, f"{place}/{name}")


@contextmanager
def _running_sweeps(service: Service, jobs: int) -> Iterator[None]:
    """Keep sweeps queued and running during the block, and cancel them at its end."""
    paths = [service.client.post(ALL, _question(4 * jobs)).headers["Location"] for _ in range(3)]
    # A sweep that is only queued disturbs nothing.
    while service.client.get(paths[0]).body["progress"] == 0:
        time.sleep(0.1)
    try:
        yield
        running = [service.client.get(path).body["status"] for path in paths]
        if "running" not in running:
            raise RuntimeError("the sweeps ended before the decisions were measured")
    finally:
        for path in paths:
            service.client.request("POST", f"{path}cancel/", {})


def _decisions(service: Service, changes: int) -> tuple[list[float], Answer]:
    """Change a workload repeatedly, and return the seconds of each decision and the last tasks.

    The seconds are from the change to the decision that includes it.
    """
    workload = service.client.get(f"{POOL}/workloads/?limit=1").body["results"][0]["id"]
    path, found = f"{POOL}/workloads/{workload}/", []
    for number in range(changes):
        begin = time.monotonic()
        tag = service.client.request("GET", path).headers["ETag"]
        answer = service.client.request(
            "PATCH", path, {"tasks": 10 + number % 7}, headers={"If-Match": tag}
        )
        generation = int(answer.headers["Pool-Generation"])
        while True:
            decision = service.client.request("GET", f"{POOL}/decision/")
            if decision.status == 200 and decision.body["generation"] >= generation:
                break
            time.sleep(0.01)
        found.append(time.monotonic() - begin)
        time.sleep(SECONDS_BETWEEN)
    decided = service.client.get(f"{POOL}/allocations/?limit=1000").body["results"]
    return found, {each["workload"]["id"]: float(each["tasks"]) for each in decided}


def _apart(one: Answer, other: Answer) -> float:
    """Return the largest relative difference, or 1 if the keys differ or there are none."""
    if not one or one.keys() != other.keys():
        return 1.0
    return max(
        abs(one[name] - other[name]) / max(abs(one[name]), abs(other[name]), 1.0) for name in one
    )


def _p90(seconds: list[float]) -> float:
    return sorted(seconds)[int(0.9 * len(seconds))]
