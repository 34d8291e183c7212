"""Members and their workloads by CSV files over HTTP, while the pool is decided meanwhile.

The peer is the goal. Every answer other than a success fails the benchmark, a 503 included.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator

from benchmarks.http.service import POOL, Service
from benchmarks.instances import GOOGLE_SERVERS
from benchmarks.measurement import Row

MEMBERS, FILE = 100_000, 20_000
TENANTS_AT_ONCE = 10_000
GOAL_SECONDS = 60.0
LONGEST_SECONDS = 600.0


def measure(*, quick: bool = False) -> list[Row]:
    """Return a row of the tenants' registration and one of their workloads, then of the decision."""
    members = MEMBERS // 100 if quick else MEMBERS
    service = Service(workers=2)
    try:
        _create_pool(service)
        registered = _seconds(lambda: _send_tenants(service, members))
        begin = time.monotonic()
        imported = _seconds(lambda: _send_workloads(service, members))
        decided = _decided_after(service, begin)
    finally:
        service.stop()
    sizes = f"{members:,} members, 12,583 servers"
    return [
        Row(
            "intake by CSV, tenants", sizes, registered, "none: the goal", GOAL_SECONDS, None, None
        ),
        Row(
            "intake by CSV, workloads",
            sizes,
            imported,
            "none: the goal",
            GOAL_SECONDS,
            None,
            None if quick else 1.0,
            f"files of {min(FILE, members):,} rows, no 503; decided {decided:.0f} s after the first",
        ),
    ]


def _seconds(run: Callable[[], None]) -> float:
    begin = time.monotonic()
    run()
    return time.monotonic() - begin


def _create_pool(service: Service) -> None:
    resources = [{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"}]
    service.client.post(
        "/api/v1/pools/",
        {
            "slug": "bench",
            "name": "Bench",
            "resources": resources,
            "policy": {"name": "drfh", "mode": "divisible"},
            "weights": "explicit",
        },
    )
    rows = [
        f"row-{row},{cpu},{memory},{count}"
        for row, (count, cpu, memory) in enumerate(GOOGLE_SERVERS)
    ]
    header = "name,capacity.cpu,capacity.memory,count"
    _import(service, "nodes", [header, *rows])


def _send_tenants(service: Service, members: int) -> None:
    for first in range(0, members, TENANTS_AT_ONCE):
        rows = [
            f"tenant-{number},Tenant {number}"
            for number in range(first, min(first + TENANTS_AT_ONCE, members))
        ]
        _post(service, "/api/v1/tenants/", "text/csv", "\n".join(["slug,name", *rows]))


def _send_workloads(service: Service, members: int) -> None:
    for rows in _files(members):
        header = "tenant,name,demand.cpu,demand.memory"
        _import(service, "workloads", [header, *rows])


def _files(members: int) -> Iterator[list[str]]:
    for first in range(0, members, FILE):
        yield [
            f"tenant-{number},batch,0.0{1 + number % 7},0.0{1 + number % 5}"
            for number in range(first, min(first + FILE, members))
        ]


def _import(service: Service, what: str, lines: list[str]) -> None:
    body = json.dumps({"format": "csv", "content": "\n".join(lines)})
    _post(service, f"{POOL}/imports/{what}/", "application/json", body)


def _post(service: Service, path: str, content_type: str, text: str) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{service.port}{path}",
        data=text.encode(),
        headers={"Authorization": f"Bearer {service.key}", "Content-Type": content_type},
    )
    # Raises for every status that is not a success.
    with urllib.request.urlopen(request, timeout=LONGEST_SECONDS) as response:
        response.read()


def _decided_after(service: Service, begin: float) -> float:
    """Return the seconds from ``begin`` until the decision in force includes the last change."""
    generation = service.client.get(f"{POOL}/").body["generation"]
    while time.monotonic() - begin < LONGEST_SECONDS:
        answer = service.client.request("GET", f"{POOL}/decision/")
        if answer.status == 200 and answer.body["generation"] >= generation:
            return time.monotonic() - begin
        time.sleep(0.5)
    raise RuntimeError("the pool was not decided in time")
