"""Snapshots, from which runs compute.

Each is one consistent reading of a pool and is stored for replay.
"""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from typing import Any
from uuid import UUID

import orjson
from django.db import connection, transaction
from django.db.models import TextField
from django.db.models.functions import Cast
from orjson import loads

from allocator_service.allocation.documents import stored_document
from allocator_service.allocation.long_term.steps import Basis, history_at, starvation_timeout
from allocator_service.allocation.models import Run, RunStatus, Snapshot
from allocator_service.allocation.present_servers import PresentServers
from allocator_service.allocation.runs.budgets import with_budgets
from allocator_service.allocation.runs.document_parts import (
    OwnServerSettings,
    amounts_in_force,
    document_groups,
    document_servers,
    document_tenant,
    document_workload,
)
from allocator_service.allocation.runs.known import DecidedTasks, Known
from allocator_service.allocation.runs.placement_dates import (
    DatedRange,
    dated_ranges,
    keeps_tasks,
    kept_rows,
    minimum_seconds,
)
from allocator_service.allocation.stored_placements import stored_placements
from allocator_service.allocation.time_sharing.deficits import deficits_at, deficits_in_force
from allocator_service.core.errors import Gone
from allocator_service.core.snapshots import BEGIN_SNAPSHOT
from allocator_service.pools.budgets import BudgetState, budget_states
from allocator_service.pools.clusters import CLUSTER_LABEL
from allocator_service.pools.models import Count, MembershipTerms, Pool
from allocator_service.pools.selectors import (
    ServerGroup,
    resources_of,
    server_groups,
)
from allocator_service.workloads.models import Workload, WorkloadState
from policies import policy_named


@dataclass(frozen=True)
class PoolState:
    """A pool at one generation, with its evaluation document and what the document leaves out.

    `settings` is the document without the effect of `budgets`, which are those that bind, exhausted or
    not. `basis` is the part of the ledger that the document's history was read from, None without one.
    `dated` are the tasks of the decision in force whose dates are known. `minimum` has the seconds for
    which tasks of each workload keep their servers. It is empty if the policy keeps none. `requested` is
    the number of requests for decisions that the pool had, all of which this state answers.
    """

    generation: int
    requested: int
    document: dict[str, Any]
    settings: dict[str, Any]
    budgets: Sequence[BudgetState]
    groups: Sequence[ServerGroup]
    workload_ids: Sequence[UUID]
    workload_tenant_pks: Sequence[int]
    tenant_pks: dict[str, int]
    basis: Basis | None = None
    dated: Sequence[DatedRange] = ()
    minimum: Sequence[int] = ()

    @property
    def deficits(self) -> dict[str, float]:
        """The deficits that the period is to repay, by the tenants that have one."""
        tenants = self.document["tenants"]
        return {tenant["name"]: tenant["owed"] for tenant in tenants if "owed" in tenant}

    @cached_property
    def written(self) -> bytes:
        """The document as JSON with sorted keys, written once for all digests."""
        return orjson.dumps(self.document, option=orjson.OPT_SORT_KEYS)

    @property
    def digest(self) -> str:
        """SHA-256 of the document and of the ids of its workloads."""
        # With the ids: two workloads can follow each other under one name, and rows refer to positions.
        content = b"[%b,%b]" % (self.written, orjson.dumps(self.workload_ids))
        return hashlib.sha256(content).hexdigest()


def pool_state(
    pool_id: int, *, now: datetime, begins: bool = False, known: Known | None = None
) -> PoolState:
    """Read a pool as it was at one instant, with one committed state for all queries.

    `now` is within the step that a long-term policy decides. With `begins`, where turns are taken, a new
    period begins now and repays the deficits that the one in force leaves. Otherwise the state is that
    of the period in force. Other policies know no time. `known` has documents of earlier states, which
    are used again for unchanged rows: the caller must not change any.
    """
    with transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            # In READ COMMITTED each statement sees another state, and no mixture was ever the pool's.
            cursor.execute(BEGIN_SNAPSHOT)
        pools = Pool.objects.select_related("job").prefetch_related("resource_types")
        pool = pools.get(pk=pool_id)
        return _read(pool, now, Known() if known is None else known, begins=begins)


def locked_pool_state(pool: Pool, *, now: datetime) -> PoolState:
    """Read a pool that the transaction has locked, with the changes that it made."""
    pools = Pool.objects.select_related("job").prefetch_related("resource_types")
    return _read(pools.get(pk=pool.pk), now, Known(), begins=False)


def _read(pool: Pool, now: datetime, known: Known, *, begins: bool) -> PoolState:
    resources = resources_of(pool)
    groups = server_groups(pool)
    members = list(
        MembershipTerms.objects.filter(membership__pool=pool, end=None)
        # A fixed order: the digest of equal states is equal, and their snapshot is stored once.
        .order_by("membership_id")
        .values_list(
            "membership__tenant_id", "membership__tenant__slug", "weight", "best_effort",
            "group__slug", "tier", _as_text("guarantee"), _as_text("limit"), _as_text("lend"),
            "own_servers",
        )
    )  # fmt: skip
    workloads = list(
        Workload.objects.filter(pool=pool, state=WorkloadState.ACTIVE)
        .order_by("id")
        .values_list(
            "id", "tenant_id", "minimum_run", _as_text("limit"),
            "tenant__slug", "name", _as_text("demand"), "tasks", "priority",
            _as_text("server_selector"), _as_text("pieces"), "per_server", "together", "at_least",
        )
    )  # fmt: skip
    servers = document_servers(groups, resources)
    has_clusters = any(group.labels.get(CLUSTER_LABEL) for group in groups)
    own = OwnServerSettings(pool, {server["contributed_by"] for server in servers})
    tenants = known.rows.of(("tenants", pool.pk), [row[1:6] for row in members], document_tenant)
    demands = known.rows.of(
        ("workloads", pool.pk, *(resource.name for resource in resources), has_clusters),
        [row[4:] for row in workloads],
        partial(document_workload, resources, has_clusters),
    )
    document: dict[str, Any] = {
        "resources": [{"name": resource.name, "unit": resource.unit} for resource in resources],
        "servers": servers,
        **document_groups(pool, now),
        "tenants": [
            tenant
            if row[6:9] == _NO_AMOUNTS and row[1] not in own.contributors
            else tenant
            | amounts_in_force(
                now, guarantee=loads(row[6]), limit=loads(row[7]), lend=loads(row[8])
            )
            | own.of(row[1], row[4], row[9])
            for row, tenant in zip(members, tenants, strict=True)
        ],
        "workloads": [
            workload if row[3] == _EMPTY else workload | amounts_in_force(now, limit=loads(row[3]))
            for row, workload in zip(workloads, demands, strict=True)
        ],
        "policy": {
            "name": pool.policy_name,
            "mode": pool.policy_mode,
            "options": pool.policy_options,
        },
        "weights": pool.weights,
        **({} if pool.count == Count.TOTAL else {"count": pool.count}),
    }
    dated: Sequence[DatedRange] = ()
    minimum: Sequence[int] = ()
    if keeps_tasks(document):
        minimum = minimum_seconds(pool, [row[2] for row in workloads])
    if pool.policy_places and pool.policy_mode == "indivisible":
        # Whole tasks stay on their servers where that costs nothing, so the policy has to know them.
        previous = _previous(pool)
        if previous is not None:
            tasks = known.decisions.of(pool.pk, previous.pk) or _decided_tasks(previous)
            placed = tasks.placements
            names = [server["name"] for server in servers]
            active = {row[0]: (row[4], row[5]) for row in workloads}
            running = _running(tasks, groups, names, active)
            if running:
                document["running"] = running
            if any(minimum):
                dated = dated_ranges(
                    previous, placed.ranges, groups, list(active), document["workloads"]
                )
                kept = kept_rows(dated, document, minimum, now)
                if kept:
                    document["kept"] = kept
    if policy_named(pool.policy_name).time_sharing:
        # A new period repays what is left. The state of a running one has what that period repays.
        deficits = deficits_at(pool, now) if begins else deficits_in_force(pool, now)
        document["tenants"] = [
            tenant | {"owed": deficits[tenant["name"]]} if deficits.get(tenant["name"]) else tenant
            for tenant in document["tenants"]
        ]
    basis = None
    if pool.policy_long_term:
        timeout = starvation_timeout(pool)
        if timeout is not None:
            # Stored options go last: the pool's own timeout wins over the default.
            options = {"starvation_timeout": timeout, **pool.policy_options}
            document["policy"]["options"] = options
        slugs = [(pk, slug) for pk, slug, *_ in members]
        document["history"], basis = history_at(pool, slugs, resources, now)
    budgets = budget_states(pool, at=now)
    return PoolState(
        generation=pool.generation,
        requested=pool.job.wanted,
        document=with_budgets(document, budgets),
        settings=document,
        budgets=budgets,
        groups=groups,
        workload_ids=[row[0] for row in workloads],
        workload_tenant_pks=[row[1] for row in workloads],
        tenant_pks={slug: pk for pk, slug, *_ in members},
        basis=basis,
        dated=dated,
        minimum=minimum,
    )


# Texts of the columns of a node without limits, guarantees and loans.
_EMPTY = "[]"
_NO_AMOUNTS = (_EMPTY, _EMPTY, _EMPTY)


def _as_text(column: str) -> Cast:
    """Return a column of JSON or an array as text.

    `orjson` parses JSON ten times as fast as Django does, and unchanged texts are not parsed at all.
    """
    return Cast(column, TextField())


def _previous(pool: Pool) -> Run | None:
    """Return the latest decision of whole tasks."""
    decided = Run.objects.filter(
        pool=pool,
        status=RunStatus.SUCCEEDED,
        effective_until=None,
        policy__mode="indivisible",
    )
    large = ("snapshot__document", "snapshot__workload_ids")
    return decided.select_related("snapshot").defer(*large).first()


def _decided_tasks(run: Run) -> DecidedTasks:
    ids = [] if run.snapshot is None else run.snapshot.workload_ids
    return DecidedTasks(stored_placements(run), ids)


def _running(
    tasks_before: DecidedTasks,
    groups: Sequence[ServerGroup],
    names: Sequence[str],
    workloads: Mapping[UUID, tuple[str, str]],
) -> list[dict[str, Any]]:
    """Return the whole tasks of the decision in force, on the servers of `groups` called `names`.

    `workloads` has tenant and name of those that are active. Servers that have changed (retired,
    draining, of another capacity) are called "".
    """
    placed = tasks_before.placements
    # Groups of identical servers may have been split or joined since the decision.
    present = PresentServers(groups, placed.ranges)
    servers = [
        present.find(each.traits, each.first_server, each.last_server)
        if each.first_server and each.last_server
        else None
        for each in placed.ranges
    ]
    active = list(map(workloads.get, tasks_before.workload_ids))
    counts = [each.count for each in placed.ranges]
    running: list[dict[str, Any]] = []
    for workload, kind, number, tasks in placed:
        found, named = servers[number], active[workload]
        if found is None or named is None:
            continue
        (position, offset, here), count = found, counts[number]
        if here:
            running.append(
                {
                    "tenant": named[0],
                    "workload": named[1],
                    "tasks": int(tasks),
                    "server": names[position],
                    "offset": offset,
                    "servers": here,
                }
            )
            # The first kind of piece is the default, and left out.
            if kind:
                running[-1]["kind"] = kind
        if count > here:
            gone = {"tenant": named[0], "workload": named[1], "tasks": int(tasks)}
            gone |= {"kind": kind} if kind else {}
            running.append(gone | {"server": "", "servers": count - here})
    return running


# Two workers may store the same state at once, and either row serves both.
_STORE = """
INSERT INTO run_snapshot (digest, document, workload_ids, created_at)
VALUES (%s, %s, %s::uuid[], %s) ON CONFLICT DO NOTHING
"""


def snapshot_store(state: PoolState, *, now: datetime) -> str:
    """Store the state, once per digest, and return the digest."""
    # Before it is compressed: the digest is of what is read, not of how it is stored.
    digest = state.digest
    # Level 1, since a decision waits for it.
    content = zlib.compress(orjson.dumps(state.document), 1)
    # JSON's texts in quotes are PostgreSQL's in an array. Django adapts each id by itself.
    ids = orjson.dumps(state.workload_ids).decode()[1:-1]
    with connection.cursor() as cursor:
        cursor.execute(_STORE, [digest, content, f"{{{ids}}}", now])
    # The digest of a pruned snapshot may come again, and its new run must keep its input. The usual one
    # is new: its document is not sent to the database twice.
    pruned = Snapshot.objects.filter(pk=digest, document=None)
    if pruned.exists():
        pruned.update(document=content)
    return digest


def snapshot_document(snapshot: Snapshot) -> dict[str, Any]:
    """Return the stored evaluation document. Raises `Gone` once its retention has passed."""
    if snapshot.document is None:
        raise Gone("The input of this run is no longer kept.", code="run.pruned")
    return stored_document(snapshot.document)
