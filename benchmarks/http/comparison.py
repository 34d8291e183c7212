"""Request rates beside those of Placement, and response times under a mixed load."""

from __future__ import annotations

import json
import os

from benchmarks.http.load import Connection, Outcome, closed_loop, open_loop, request_bytes
from benchmarks.http.peer import HEADERS, Placement, provider, provider_id
from benchmarks.http.service import POOL, TENANTS, Service
from benchmarks.measurement import Row

WEB_WORKERS = 2
CONNECTIONS = 8
SERVERS = 50
LIST_GOAL, GET_GOAL = 2.0, 2.5
MIXED_RATE = 50.0
SLOWEST_SECONDS = 0.150
ROUNDS = 3


def measure(*, quick: bool = False) -> list[Row]:
    """Measure a list of 50 and a get beside Placement, then 50 mixed requests/s with recomputes.

    Both sides respond from the same PostgreSQL, through gunicorn with as many processes and threads, to
    the same load generator, in turns. Ours checks a key and returns each server's capacity, labels,
    owner and state. Placement with ``noauth2`` and bare providers does less.
    """
    service = Service(WEB_WORKERS)
    peer = Placement(os.environ["DATABASE_URL"], WEB_WORKERS)
    try:
        server = service.fill(SERVERS)
        _fill(peer)
        pages = {
            "list of 50": (LIST_GOAL, f"{POOL}/servers/?limit=50", "/resource_providers"),
            "get": (GET_GOAL, f"{POOL}/servers/{server}/", f"/resource_providers/{provider_id(0)}"),
        }
        seconds = 2.0 if quick else 8.0
        rows = [
            _rates(name, goal, service, peer, *paths, seconds=seconds)
            for name, (goal, *paths) in pages.items()
        ]
        rows.append(_mixed_load_row(service, server, seconds=20.0 if quick else 300.0))
    finally:
        peer.stop()
        service.stop()
    return rows


def _headers(service: Service) -> dict[str, str]:
    return {"Authorization": f"Bearer {service.key}", "Accept": "application/json"}


def _fill(peer: Placement) -> None:
    connection = Connection("127.0.0.1", peer.port)

    def made(position: int) -> bool:
        request = request_bytes("POST", "/resource_providers", HEADERS, provider(position))
        try:
            # A conflict is a provider of an earlier run.
            return connection.send(request)[0] in (200, 409)
        except OSError:
            connection.close()
            return False

    # The first one again and again, until Placement is up.
    peer.wait(lambda: made(0))
    failed = [position for position in range(1, SERVERS) if not made(position)]
    connection.close()
    if failed:
        raise RuntimeError(f"Placement refused {len(failed)} resource providers")


def _rates(
    name: str,
    goal: float,
    service: Service,
    peer: Placement,
    ours: str,
    theirs: str,
    *,
    seconds: float,
) -> Row:
    sides = (
        (service.port, request_bytes("GET", ours, _headers(service)), "results"),
        (peer.port, request_bytes("GET", theirs, HEADERS), "resource_providers"),
    )
    best: list[Outcome] = []
    for port, request, key in sides:
        status, body = Connection("127.0.0.1", port).send(request)
        answer = json.loads(body)
        # A list that is cut short would make its side look fast.
        if status != 200 or len(answer.get(key, [0] * SERVERS)) != SERVERS:
            raise RuntimeError(f"{name}: {status} {body[:200]!r}")
        # A first second, in which processes and connections begin.
        best.append(closed_loop(port, request, connections=CONNECTIONS, seconds=1.0))
    # In turns, and the best of each side: what else the machine does only makes it slower.
    for _ in range(ROUNDS):
        for side, (port, request, _) in enumerate(sides):
            outcome = closed_loop(port, request, connections=CONNECTIONS, seconds=seconds)
            if set(outcome.statuses) != {200}:
                raise RuntimeError(f"{name}: {dict(outcome.statuses)}")
            best[side] = max(best[side], outcome, key=lambda one: one.rate)
    mine, other = best
    return Row(
        name=f"GET, {name}",
        sizes=f"{CONNECTIONS} connections, {WEB_WORKERS} web processes",
        our_value=1 / mine.rate,
        peer="OpenStack Placement 16",
        peer_value=1 / other.rate,
        agreement=None,
        goal=goal,
        notes=f"{mine.rate:.0f}/s beside {other.rate:.0f}/s",
    )


def _mixed_load_row(service: Service, server: str, *, seconds: float) -> Row:
    """Measure reads at a fixed rate, with a write in ten that requires a new decision."""
    headers = _headers(service)
    batch = [
        row["id"]
        for row in service.client.get(f"{POOL}/workloads/?limit={TENANTS}").body["results"]
    ]
    reads = [
        f"{POOL}/allocations/", f"{POOL}/servers/?limit=50", f"{POOL}/servers/{server}/",
        f"{POOL}/decision/", f"{POOL}/", f"{POOL}/workloads/?limit=50", f"{POOL}/placements/",
        f"{POOL}/members/", "/api/v1/events/?limit=100",
    ]  # fmt: skip
    # Any version will do, so that a write is one request.
    whole_file = {**headers, "If-Match": "*"}

    def make(number: int) -> bytes:
        if number % 10 == 9:
            # Another number each time, because a change that changes nothing needs no decision.
            tasks = json.dumps({"tasks": 10 + number % 50}).encode()
            path = f"{POOL}/workloads/{batch[number // 10 % len(batch)]}/"
            return request_bytes("PATCH", path, whole_file, tasks)
        return request_bytes("GET", reads[number % len(reads)], headers)

    before = _decisions(service)
    outcome = open_loop(
        service.port, make, rate=MIXED_RATE, connections=CONNECTIONS, seconds=seconds
    )
    refused = {status: count for status, count in outcome.statuses.items() if status >= 400}
    p95 = outcome.percentile(95)
    return Row(
        name="mixed load",
        sizes=f"{MIXED_RATE:.0f} requests/s for {seconds:.0f} s, a tenth of them writes",
        our_value=p95,
        peer="none: p95 of at most 150 ms",
        peer_value=SLOWEST_SECONDS,
        agreement=None,
        goal=1.0 if not refused else float("inf"),
        notes=f"p50 {outcome.percentile(50) * 1e3:.1f} ms, p99 {outcome.percentile(99) * 1e3:.1f} ms, "
        f"{_decisions(service) - before} decisions, refused: {refused or 'none'}",
    )


def _decisions(service: Service) -> int:
    return len(service.client.pages("/api/v1/pools/bench/runs/?limit=1000"))
