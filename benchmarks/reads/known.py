"""Processor time of known answers in a web process."""

from __future__ import annotations

import io
import sys
import time
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import orjson
from django.core.handlers.wsgi import WSGIHandler
from django.core.management import call_command

from allocator_service.allocation.allocation_rows import AllocationRows
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.allocation.selectors import decision_now
from allocator_service.core.clock import utc_now
from allocator_service.core.documents import json_bytes
from allocator_service.core.ids import new_id
from allocator_service.core.quantities import Resource
from allocator_service.pools.models import Pool
from allocator_service.pools.policy import Window
from allocator_service.pools.selectors import resources_of
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.pools.services import PoolSettings, pool_create
from allocator_service.tenants.services import TenantDraft, api_key_create, tenants_create
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from api.v1.run_documents import RowWriter
from benchmarks.measurement import Row, best_seconds
from benchmarks.reads import objects

TENANTS = 1000
SERVERS = 100
KNOWN_SECONDS = 1e-3


class Web:
    """The application as a web process calls it, with a key of an operator."""

    def __init__(self) -> None:
        call_command("migrate", verbosity=0)
        now = utc_now()
        self.application = WSGIHandler()
        self.key = api_key_create(
            scope="operator",
            name=f"bench-{new_id()}",
            tenant=None,
            expires_at=now + timedelta(days=1),
            now=now,
        ).text

    def get(self, path: str, known: str = "") -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of a GET, with `If-None-Match` if a tag is known."""
        parts = urlsplit(path)
        heads: list[tuple[str, dict[str, str]]] = []

        def start(status: str, headers: list[tuple[str, str]], *_: Any) -> Any:
            heads.append((status, dict(headers)))

        environ: dict[str, Any] = {
            "REQUEST_METHOD": "GET",
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "REMOTE_ADDR": "127.0.0.1",
            "HTTP_HOST": "localhost",
            "HTTP_ACCEPT": "application/json",
            "HTTP_AUTHORIZATION": f"Bearer {self.key}",
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(),
            "wsgi.errors": sys.stderr,
        }
        if known:
            environ["HTTP_IF_NONE_MATCH"] = known
        response = self.application(environ, start)
        try:
            body = b"".join(response)
        finally:
            # As a server does: Django closes what the request opened.
            response.close()
        ((status, headers),) = heads
        return int(status[:3]), headers, body

    def seconds(self, path: str, known: str = "", *, status: int, repeat: int) -> float:
        """Return the processor seconds of a GET, the least mean of five rounds."""
        best = float("inf")
        # The least of five, because disturbances only add.
        for _ in range(5):
            # Processor time, as other processes of the machine must not count.
            begin = time.process_time()
            for _ in range(repeat):
                if self.get(path, known)[0] != status:
                    raise RuntimeError(f"{path} was not answered {status}")
            best = min(best, (time.process_time() - begin) / repeat)
        return best


def decided_pool(tenants: int) -> Pool:
    """Return a pool with a decision about one workload for each of so many tenants."""
    # A name of its own: the database may have pools of earlier runs.
    now, slug = utc_now(), f"bench-{new_id().hex[-8:]}"
    settings = PoolSettings(
        name=slug,
        resources=[Resource("cpu", "core"), Resource("memory", "GiB")],
        policy=policy_choose("drfh", None, {}),
        window=Window("unbounded", now),
        weights="explicit",
        own_servers=False,
        count="total",
        decision_interval="PT1M",
        metering="reported",
        currency="EUR",
        timezone="UTC",
        transparent=False,
    )
    pool = pool_create(slug=slug, settings=settings, now=now)
    drafts = [TenantDraft(f"{slug}-{number}", f"Group {number}") for number in range(tenants)]
    groups = tenants_create(drafts=drafts, now=now)
    capacity = [Decimal(32), Decimal(128)]
    servers = [ServerDraft("server", capacity, None, count=SERVERS)]
    servers_contribute(pool=pool, drafts=servers, now=now)
    workloads_submit(
        pool=pool,
        drafts=[
            WorkloadDraft(each, "batch", [Decimal(1 + i % 3), Decimal(2 + i % 5)])
            for i, each in enumerate(groups)
        ],
        now=now,
    )
    # In this process, because no worker runs beside the benchmark.
    run = recompute_pool(pool_id=pool.pk, clock=utc_now, early=True)
    if run is None or run.status != "succeeded":
        raise RuntimeError("the pool of the benchmark was not decided")
    return pool


def measure(*, quick: bool = False) -> list[Row]:
    """Return rows of known answers of a pool of 1,000 tenants beside the answers with a body."""
    web, pool = Web(), decided_pool(TENANTS // (10 if quick else 1))
    base = f"/api/v1/pools/{pool.slug}/"
    repeat = 20 if quick else 200
    paths = {
        "pool": base,
        "decision": f"{base}decision/",
        "100 allocations": f"{base}allocations/?limit=100",
        "50 servers": f"{base}servers/?limit=50",
        "100 members": f"{base}members/?limit=100",
        "pools": "/api/v1/pools/",
    }
    return [
        *(_known(web, name, path, repeat) for name, path in paths.items()),
        *decisions(web, pool, repeat),
    ]


def decisions(web: Web, pool: Pool, repeat: int) -> list[Row]:
    """Return rows of a decision and its allocations beside objects of the ORM."""
    run = decision_now(pool=pool, now=utc_now())
    resources = resources_of(pool)
    peer = objects.Writer(run, resources, None)
    rows = []
    base = f"/api/v1/pools/{pool.slug}/"
    for count, most in ((100, 3e-3), (1000, 12e-3)):
        path = f"{base}allocations/?limit={count}"
        plain = json_bytes(peer.rows()[:count])
        # Times compare only if both sides write the same.
        if json_bytes(orjson.loads(web.get(path)[2])["results"]) != plain:
            raise RuntimeError("the rows of the benchmark differ")
        rows.append(_beside(web, f"GET, {count:,} allocations", path, most, repeat))
    rows.append(_beside(web, "GET, decision", f"{base}decision/", 2e-3, repeat))
    writer = RowWriter(run, resources, None, None)
    # Both sides from the database to bytes, which is what an answer costs.
    ours, _ = best_seconds(
        lambda: AllocationRows(run),
        lambda found: json_bytes([writer.allocation(row) for row in found]),
        repeat=20,
    )
    theirs, _ = best_seconds(lambda: peer, lambda made: json_bytes(made.rows()), repeat=20)
    rows.append(
        Row(
            name="allocations, read and written",
            sizes=f"{len(peer.rows()):,} rows",
            our_value=ours,
            peer="objects of the ORM",
            peer_value=theirs,
            agreement=0.0,
            goal=5.0,
            notes="the same bytes",
        )
    )
    return rows


def _beside(web: Web, name: str, path: str, most: float, repeat: int) -> Row:
    body = web.get(path)[2]
    return Row(
        name=name,
        sizes=f"{len(body):,} bytes",
        our_value=web.seconds(path, status=200, repeat=max(10, repeat // 4)),
        peer=f"none: at most {most * 1e3:g} ms",
        peer_value=most,
        agreement=None,
        goal=1.0,
        notes="processor time of the web process",
    )


def _known(web: Web, name: str, path: str, repeat: int) -> Row:
    """Return what a known answer costs, beside the same answer with its body."""
    status, headers, body = web.get(path)
    if status != 200:
        raise RuntimeError(f"{path}: {status} {body[:200]!r}")
    tag = headers["ETag"]
    seconds = web.seconds(path, tag, status=304, repeat=repeat)
    # Fewer repetitions: an answer with its body takes far longer.
    again = web.seconds(path, status=200, repeat=max(10, repeat // 4))
    return Row(
        name=f"known answer, {name}",
        sizes=f"{len(body):,} bytes",
        our_value=seconds,
        peer="200 with the body",
        peer_value=again,
        agreement=None,
        goal=again / KNOWN_SECONDS,
        notes="processor time of the web process; goal: 1 ms",
    )
