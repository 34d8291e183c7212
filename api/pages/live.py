"""State of a pool's pages, by which a page that is open knows when to load itself again."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse

from allocator_service.allocation.models import Run
from allocator_service.allocation.selectors import decision_now, slot_in_force
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Missing
from allocator_service.core.snapshots import one_snapshot
from allocator_service.enforcement.selectors import pool_signs
from allocator_service.pools.models import Pool
from api.pages.views import PoolPage


@dataclass(frozen=True)
class Live:
    """Address of a page's state, and the state that the page shows."""

    url: str
    state: str


def run_in_force(*, pool: Pool, now: datetime) -> Run | None:
    """Return the decision in force, None before the first."""
    try:
        return decision_now(pool=pool, now=now)
    except Missing:
        return None


def live_of(*, pool: Pool, run: Run | None, now: datetime) -> Live:
    """Return the state of a pool's pages under the decision in force."""
    signs = pool_signs(pool=pool, run=run)
    slot = slot_in_force(run=run, at=now) if run is not None and signs.has_slots else None
    reported = signs.reported_at
    parts = (
        pool.version,
        pool.generation,
        run and run.pk,
        signs.failed_run,
        slot and slot.start,
        # Agents report every few seconds: their use is taken in once a minute.
        reported and reported.replace(second=0, microsecond=0),
    )
    digest = sha256(repr([str(part) for part in parts]).encode()).hexdigest()[:16]
    return Live(reverse("my-state", args=[pool.slug]), digest)


class StatePage(PoolPage):
    """Page `/my/pools/{pool}/state/` that answers 304 while the pool's pages are current."""

    def get(self, request: HttpRequest, pool: str) -> HttpResponseBase:
        # A decision that is published between the reads would give a state that no page ever shows.
        with one_snapshot():
            now, of_pool = utc_now(), self.pool
            run = run_in_force(pool=of_pool, now=now)
            state = live_of(pool=of_pool, run=run, now=now).state
        tag = f'"{state}"'
        # The page's own script asks, with this one tag: lists and weak tags need no reading.
        known = request.headers.get("If-None-Match") == tag
        response = HttpResponse(b"" if known else state, content_type="text/plain; charset=utf-8")
        response.status_code = 304 if known else 200
        response["ETag"], response["Cache-Control"] = tag, "no-store"
        return response
