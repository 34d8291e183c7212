"""Ledgers of some months with everything that an entry can have, and all that readers state of them."""

import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from django.db import transaction

from allocator_service.allocation.audit.ledger import ledgers_verify
from allocator_service.backtests.histories import _used
from allocator_service.billing.models import Closing
from allocator_service.billing.rating.amounts import used_between, used_by_now
from allocator_service.billing.rating.entries import entries_used
from allocator_service.billing.rating.late import late_entries
from allocator_service.billing.statements.manifest import manifest_document
from allocator_service.ledger.amounts.clusters import used_by_cluster, used_in_window
from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.ledger.archive.archiving import months_archive
from allocator_service.ledger.archive.months import Obstacle
from allocator_service.ledger.audit.running_sums import RunningSums
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.intake.sealing import entries_seal_all
from allocator_service.ledger.models import Entry, Seal
from allocator_service.ledger.selectors import first_start
from allocator_service.ledger.windows import Known, amounts_in
from allocator_service.pools.models import Pool
from allocator_service.pools.windows import Past
from allocator_service.tenants.models import Tenant

ODD_TEXTS = [
    "plain", "=1+1", "-5", "a,b", 'say "so"', "tab\there", "größe ☃", "\\.", "\\N", "line\nfeed", "NULL",
    "'",
]  # fmt: skip
YEAR = 2026


def at(month: int, day: int = 1, **more: float) -> datetime:
    return datetime(YEAR, month, day, tzinfo=UTC) + timedelta(**more)


@dataclass
class Ledger:
    """A random ledger that grows month by month, with late entries and corrections."""

    pools: list[Pool]
    tenants: list[Tenant]
    directory: Path
    seed: int = 1

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._events = count()

    def fill(self, months: int = 5, entries: int = 40) -> None:
        for month in range(1, months + 1):
            for _ in range(3):
                late = self._chance.random() < 0.3
                of = [self._chance.randint(1, month) if late else month for _ in range(entries)]
                self.append(*of)
            for entry in Entry.objects.exclude(kind="correction").order_by("id")[month::30]:
                self.correct(entry)
        self.seal()

    def append(self, *months: int) -> None:
        entries_append([self.row(month) for month in months])
        self.seal()

    def correct(self, entry: Entry) -> None:
        more = Decimal(self._chance.randint(1, 10**9)) / 10**9
        entry_correct(
            entry=entry,
            quantity=entry.quantity + more,
            reason=self._chance.choice(ODD_TEXTS),
            now=entry.end,
        )

    def seal(self) -> None:
        entries_seal_all(now=at(12))
        while totals_advance():
            pass

    def row(self, month: int) -> dict[str, Any]:
        chance = self._chance
        begin = at(month, microseconds=chance.randrange(27 * 86_400 * 10**6))
        event = chance.choice([None, f"{chance.choice(ODD_TEXTS)}-{next(self._events)}"])
        return {
            "pool_id": chance.choice(self.pools).pk,
            "tenant_id": chance.choice(self.tenants).pk,
            "server_owner_id": chance.choice([None, *(tenant.pk for tenant in self.tenants)]),
            "workload_id": None,
            "resource": chance.choice(["cpu", "memory"]),
            "unit": chance.choice(["core", "GiB", ""]),
            "quantity": Decimal(chance.randrange(10**14)) / 10**12,
            "start": begin,
            "end": begin + timedelta(microseconds=chance.randrange(1, 3 * 86_400 * 10**6)),
            "kind": chance.choice(["usage", "usage", "alone"]),
            "corrects": None,
            "reason": "",
            "source": chance.choice(ODD_TEXTS),
            "event_id": event,
            "run_id": None if event else uuid4(),
            "recorded_at": begin + timedelta(days=3, microseconds=chance.randrange(10**6)),
        }


# Edges within quarters of hours, in archived months and after them.
EDGES = [at(1, 3, seconds=7), at(1, 20, hours=5, seconds=1), at(2, 9), at(3, 30, hours=3), at(5, 2)]


def read_by_services(pool: Pool) -> dict[str, Any]:
    """Return what each reader of entries below the API states of a pool."""
    last = Seal.objects.order_by("-sequence").values_list("sequence", flat=True).first() or 0
    sums = RunningSums(pool.pk)
    found: dict[str, Any] = {"first": first_start(pool=pool)}
    pasts = [
        Past(None, at(6)),
        *(Past(since, until) for since, until in pairwise(EDGES)),
        Past(None, at(2, 9, seconds=11), half_life=86_400.0 * 30),
        Past(None, at(6), half_life=86_400.0 * 9),
    ]
    for number, past in enumerate(pasts):
        state = amounts_in(pool, past)
        of = sums.at(past, Known(last, []))
        found[f"sums {number}"] = ({key: each.value for key, each in of.amounts.items()}, of.first)
        found[f"window {number}"] = (dict(state.used), dict(state.alone))
        among = [use[0] for use in state.used]
        found[f"clusters in window {number}"] = {
            use[:-1]: use.amount for use in used_in_window(pool=pool, past=past, among=among)
        }
        if past.half_life is not None:
            for name in ("window", "sums", "clusters in window"):
                found[f"{name} {number}"] = _rounded(found[f"{name} {number}"])
    found["by now"] = sorted(used_by_now(pool=pool, edges=EDGES), key=repr)
    found["clusters"] = sorted(used_by_cluster(pool=pool, edges=EDGES), key=repr)
    for through in (None, last // 2):
        for increment in ("exact", "hour-up"):
            used = used_between(
                pool=pool, edges=EDGES, increments=[increment] * (len(EDGES) - 1), through=through
            )
            found[f"between {through} {increment}"] = sorted(used, key=repr)
    pairs = [(tenant.pk, name) for tenant in Tenant.objects.all() for name in ("cpu", "memory")]
    prices: Any = SimpleNamespace(edges=EDGES, increments=["hour-up"] * (len(EDGES) - 1))
    found["entries"] = list(entries_used(pool=pool, prices=prices, pairs=pairs, through=None))
    found["late"] = list(late_entries(pool=pool, after=last // 3, before=at(3)))
    # A closing with late entries, as one of February that was followed by others.
    closing = Closing(pool=pool, month=at(2).date(), start=at(2), end=at(3), sequence=last * 3 // 4)
    found["manifest"] = manifest_document(closing)
    with transaction.atomic():
        found["history"] = list(_used(pool=pool, tenant=None, start=EDGES[0], end=EDGES[-1]))
    return found


def _rounded(value: Any) -> Any:
    """Return decayed amounts without the digits that depend on the order in which doubles are added."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_rounded, value))
    return f"{value:.10g}" if isinstance(value, float | Decimal) else value


def read_by_routes(client: Any, pool: str) -> dict[str, Any]:
    """Return the bytes of each route that reads entries."""
    found: dict[str, Any] = {}
    for form in ("csv", "ndjson"):
        for limits in (f"pool={pool}", f"pool={pool}&kind=correction", "kind=alone", "tenant=ada"):
            url = f"/api/v1/ledger-entries/export/?format={form}&{limits}"
            answer = client.get(url)
            assert answer.status_code == 200
            found[url] = b"".join(answer.streaming_content)
    for limits in (f"pool={pool}&limit=70", "limit=90", f"pool={pool}&kind=correction&limit=3"):
        url = f"/api/v1/ledger-entries/?{limits}"
        pages, after = [], ""
        while True:
            answer = client.get(f"{url}&after={after}" if after else url)
            assert answer.status_code == 200, answer.content
            document = json.loads(answer.content)
            pages.append(json.dumps(document["results"]).encode())
            if not document["results"]:
                break
            after = document["next_cursor"]
        found[url] = b"\n".join(pages)
    for name in ("utilization", "sharing-degree", "lending"):
        for span in (
            "from=2026-01-03T00:07:01Z&to=2026-01-20T05:00:00Z",
            "from=2026-02-01T00:00:00Z&to=2026-05-01T00:00:00Z",
        ):
            url = f"/api/v1/pools/{pool}/reports/{name}/?{span}"
            answer = client.get(url)
            # A tenant's key has no report of others.
            found[url] = answer.content if answer.status_code == 200 else answer.status_code
    return found


def verified() -> list[tuple[str, bool, str]]:
    """Return the checks of the ledger, without the number of archives."""
    checks = ledgers_verify(now=at(6))
    return [(c.name, c.holds, c.detail) for c in checks if c.name != "archives"]


APRIL = at(4)


def archive(
    before: datetime = APRIL, obstacle: Obstacle = lambda *_: "", now: datetime | None = None
) -> dict[str, str]:
    """Archive and return the reason for each month, '' for those that were."""
    found = months_archive(before=before, now=now or at(6), obstacle=obstacle)
    return {f"{outcome.month:%Y-%m}": outcome.reason for outcome in found}


def everything(ledger: Ledger, *clients: Any) -> list[Any]:
    """Return what every reader states of a ledger."""
    return [
        *(read_by_services(pool) for pool in ledger.pools),
        *(read_by_routes(client, "lab") for client in clients),
        verified(),
    ]


def files(ledger: Ledger) -> list[str]:
    """Return the names in the directory of archives, unfinished files included."""
    return sorted(path.name for path in ledger.directory.iterdir())
