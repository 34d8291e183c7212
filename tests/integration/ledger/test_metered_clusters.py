"""Metered use by cluster, which is that of the servers that the decision chose."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import transaction

from allocator_service.allocation.admin.past_and_plan import window_table
from allocator_service.allocation.long_term.metering import pool_meter
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.backtests.histories import submitted_between
from allocator_service.ledger.amounts.clusters import used_by_cluster
from allocator_service.ledger.audit.verification import ledger_verify
from allocator_service.ledger.intake.corrections import entry_correct
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.ledger.models import Entry, Kind, OpenUse
from allocator_service.pools.models import Pool, WindowKind
from allocator_service.pools.policy import Window
from allocator_service.pools.recompute import decision_request
from allocator_service.pools.selectors import resources_of
from allocator_service.pools.server_services import (
    ServerDraft,
    server_drain,
    servers_contribute,
)
from allocator_service.pools.services import pool_create
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests.integration.conftest import NOON, settings, vector

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def decide(pool, at):
    decision_request(pool, now=at)
    return recompute_pool(pool_id=pool.pk, clock=lambda: at)


def lab(tenant, *policy, servers, workloads):
    """A pool whose servers are names with a cluster and CPUs, and whose workloads are of `ada`."""
    chosen = settings(policy=policy_choose(*policy))
    pool = pool_create(slug="lab", settings=chosen, now=NOON)
    drafts = [
        ServerDraft(name, vector(cpu, cpu), owner and tenant(owner), labels=labels)
        for name, labels, cpu, owner in servers
    ]
    servers_contribute(pool=pool, drafts=drafts, now=NOON)
    drafts = [
        WorkloadDraft(tenant("ada"), name, vector(1, 1), **more) for name, more in workloads.items()
    ]
    workloads_submit(pool=pool, drafts=drafts, now=NOON)
    return pool


def of(cluster):
    return {"cluster": cluster}


def cpu_hours(pool, until, since=NOON):
    """CPU-hours by cluster in an interval."""
    uses = used_by_cluster(pool=pool, edges=[since, until])
    return {use.cluster: use.amount / 3600 for use in uses if use.resource == "cpu"}


EAST_AND_WEST = [("e", of("east"), 4, None), ("w", of("west"), 3, None)]


def test_whole_tasks_of_one_workload_are_of_the_clusters_of_their_servers(tenant):
    pool = lab(tenant, "drfh", "indivisible", {}, servers=EAST_AND_WEST, workloads={"any": {}})
    decide(pool, NOON)
    pool_meter(pool_id=pool.pk, now=NOON + 30 * MINUTE)
    assert Entry.objects.count() == 0  # all of it is open
    assert cpu_hours(pool, NOON + HOUR) == {"east": 2, "west": Decimal("1.5")}
    pool_meter(pool_id=pool.pk, now=NOON + 90 * MINUTE)
    entries_seal(now=NOON)
    assert cpu_hours(pool, NOON + 2 * HOUR) == {"east": 6, "west": Decimal("4.5")}
    # The seal covers the cluster, because the source names it.
    assert set(Entry.objects.filter(kind=Kind.USAGE).values_list("source", flat=True)) == {
        "decisions/east", "decisions/west",
    }  # fmt: skip
    assert set(Entry.objects.filter(kind=Kind.ALONE).values_list("source", flat=True)) == {
        "decisions"
    }
    assert [check for check in ledger_verify(now=NOON) if not check.holds] == []


@pytest.mark.parametrize("hours", [Decimal("0.5"), 1])
def test_the_history_of_a_workload_in_several_clusters_has_all_of_its_tasks(tenant, hours):
    """As entries of two sources, and while they are open."""
    pool = lab(tenant, "drfh", "indivisible", {}, servers=EAST_AND_WEST, workloads={"any": {}})
    decide(pool, NOON)
    pool_meter(pool_id=pool.pk, now=NOON + int(60 * hours) * MINUTE)
    found = submitted_between(pool=pool, tenant=None, start=NOON, end=NOON + HOUR)
    assert found.trace.workload.tolist() == [0] * 7
    assert set(found.trace.duration.tolist()) == {3600 * hours}


def test_a_use_that_moves_to_another_cluster_is_divided_there(tenant):
    """Its quantity stays the same."""
    workloads = {"any": {"tasks": 3}}
    pool = lab(tenant, "drfh", "indivisible", {}, servers=EAST_AND_WEST, workloads=workloads)
    decide(pool, NOON)
    pool_meter(pool_id=pool.pk, now=NOON + 20 * MINUTE)
    ((first, amount),) = cpu_hours(pool, NOON + 20 * MINUTE).items()
    assert amount == 1
    server = pool.servers.get(labels__cluster=first)
    server_drain(server=server, version=None, now=NOON + 30 * MINUTE)
    decide(pool, NOON + 30 * MINUTE)
    pool_meter(pool_id=pool.pk, now=NOON + HOUR)
    entries_seal(now=NOON)
    (second,) = {"east", "west"} - {first}
    assert cpu_hours(pool, NOON + HOUR) == {first: Decimal("1.5"), second: Decimal("1.5")}
    quarter = 15 * MINUTE
    assert cpu_hours(pool, NOON + 3 * quarter, since=NOON + quarter) == {
        first: Decimal("0.75"), second: Decimal("0.75"),
    }  # fmt: skip


def test_a_correction_is_of_the_cluster_of_its_entry(tenant):
    pool = lab(tenant, "drfh", "indivisible", {}, servers=EAST_AND_WEST, workloads={"any": {}})
    decide(pool, NOON)
    pool_meter(pool_id=pool.pk, now=NOON + HOUR)
    entry = Entry.objects.get(kind=Kind.USAGE, resource="cpu", source="decisions/east")
    entry_correct(entry=entry, quantity=Decimal(1), reason="it failed", now=NOON + HOUR)
    entries_seal(now=NOON)
    assert cpu_hours(pool, NOON + HOUR) == {"east": 1, "west": 3}


def test_identical_servers_that_a_decision_does_not_distinguish_have_equal_parts(tenant):
    """As in the limits of each cluster."""
    servers = [("e1", of("east"), 4, "bob"), ("e2", of("east"), 4, "bob"), ("w", of("west"), 4, "bob"),
               ("own", of("west"), 2, None)]  # fmt: skip
    pool = lab(tenant, "drfh", None, {}, servers=servers, workloads={"any": {}})
    decide(pool, NOON)
    pool_meter(pool_id=pool.pk, now=NOON + HOUR)
    entries_seal(now=NOON)
    found = cpu_hours(pool, NOON + HOUR)
    assert {cluster: float(amount) for cluster, amount in found.items()} == pytest.approx(
        {"east": 8, "west": 6}
    )
    rows = Entry.objects.filter(kind=Kind.USAGE, resource="cpu")
    assert {(row.source, row.server_owner and row.server_owner.slug) for row in rows} == {
        ("decisions/east", "bob"), ("decisions/west", "bob"), ("decisions/west", None),
    }  # fmt: skip


def test_slots_are_of_the_clusters_of_their_servers(tenant):
    policy = ("tda", None, {"period_seconds": 40, "pack": True})
    pool = lab(tenant, *policy, servers=EAST_AND_WEST, workloads={"any": {}})
    decide(pool, NOON)
    pool_meter(pool_id=pool.pk, now=NOON + HOUR)
    entries_seal(now=NOON)
    assert cpu_hours(pool, NOON + HOUR) == {"east": 4, "west": 3}


def test_servers_without_the_label_are_of_the_cluster_of_the_pool(tenant):
    servers = [("e", of("east"), 4, None), ("l", {}, 3, None)]
    pool = lab(tenant, "drfh", "indivisible", {}, servers=servers, workloads={"any": {}})
    decide(pool, NOON)
    pool_meter(pool_id=pool.pk, now=NOON + HOUR)
    entries_seal(now=NOON)
    assert cpu_hours(pool, NOON + HOUR) == {"east": 4, "lab": 3}


def test_a_policy_that_sees_one_server_chooses_no_cluster(tenant):
    workloads = {"any": {"tasks": 3}}
    pool = lab(tenant, "drf", None, {}, servers=EAST_AND_WEST, workloads=workloads)
    decide(pool, NOON)
    pool_meter(pool_id=pool.pk, now=NOON + HOUR)
    entries_seal(now=NOON)
    assert cpu_hours(pool, NOON + HOUR) == {None: 3}


def test_open_uses_of_the_release_before_have_no_cluster(tenant):
    pool = lab(tenant, "drfh", "indivisible", {}, servers=EAST_AND_WEST, workloads={"any": {}})
    decide(pool, NOON)
    pool_meter(pool_id=pool.pk, now=NOON + 30 * MINUTE)
    OpenUse.objects.update(clusters=None)
    pool_meter(pool_id=pool.pk, now=NOON + 90 * MINUTE)
    entries_seal(now=NOON)
    assert cpu_hours(pool, NOON + HOUR) == {None: 7}
    assert cpu_hours(pool, NOON + 2 * HOUR, since=NOON + HOUR) == {
        "east": 2,
        "west": Decimal("1.5"),
    }


def test_a_cluster_with_a_name_too_long_for_a_source_is_not_known(tenant):
    servers = [("e", of("e" * 191), 4, None), ("w", of("w" * 190), 3, None)]
    pool = lab(tenant, "drfh", "indivisible", {}, servers=servers, workloads={"any": {}})
    decide(pool, NOON)
    pool_meter(pool_id=pool.pk, now=NOON + 30 * MINUTE)
    # Open uses are read as the entries that they become.
    assert cpu_hours(pool, NOON + HOUR) == {None: 2, "w" * 190: Decimal("1.5")}
    pool_meter(pool_id=pool.pk, now=NOON + HOUR)
    entries_seal(now=NOON)
    assert cpu_hours(pool, NOON + HOUR) == {None: 4, "w" * 190: 3}


def test_entries_of_a_pool_without_clusters_name_none(fig2):
    decide(fig2, NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + HOUR)
    assert set(Entry.objects.values_list("source", flat=True)) == {"decisions"}
    assert not OpenUse.objects.exclude(clusters=None).exists()


def used_by_hand(pool, tenant, quantity, start, end):
    """Append use of CPUs of which no cluster is known, and do not seal it."""
    with transaction.atomic():
        entries_append([{
            "pool_id": pool.pk, "tenant_id": tenant.pk, "server_owner_id": None, "workload_id": None,
            "resource": "cpu", "unit": "CPU", "quantity": quantity, "start": start, "end": end,
            "kind": Kind.USAGE, "corrects": None, "reason": "", "source": "by hand",
            "event_id": f"{start}", "run_id": None, "recorded_at": end,
        }])  # fmt: skip


@pytest.mark.parametrize(
    "window",
    [
        Window(WindowKind.TUMBLING, NOON, "PT2H"),
        Window(WindowKind.SLIDING, NOON, "PT1H"),
        Window(WindowKind.UNBOUNDED, NOON),
        Window(WindowKind.DECAY, NOON, half_life="PT1H"),
    ],
    ids=lambda window: window.kind,
)
def test_a_window_has_the_use_of_each_cluster_that_adds_up(tenant, window):
    """Entries that nobody has sealed and open uses count, as in the window."""
    pool = lab(tenant, "drfh", "indivisible", {}, servers=EAST_AND_WEST, workloads={"any": {}})
    Pool.objects.filter(pk=pool.pk).update(
        window_kind=window.kind,
        window_anchor=window.anchor,
        window_length=window.length,
        window_half_life=window.half_life,
    )
    pool.refresh_from_db()
    decide(pool, NOON)
    pool_meter(pool_id=pool.pk, now=NOON + 90 * MINUTE)
    now = NOON + 90 * MINUTE
    used_by_hand(pool, tenant("ada"), Decimal(3), NOON - HOUR, NOON + HOUR)
    table = window_table(pool, resources_of(pool), now)
    (row,) = table.rows
    for used, clusters in zip(row.used, row.clusters, strict=True):
        assert sum(clusters.values()) == pytest.approx(used)
    cpu = row.clusters[0]
    assert list(cpu) == ["east", "west", None]
    assert cpu["east"] / cpu["west"] == pytest.approx(4 / 3)
    lines = [name for name, _ in row.parts[0]]
    assert lines == ["used", "in east", "in west", "in an unknown cluster", "alone"]


def test_the_window_of_a_pool_without_clusters_is_not_divided(tenant):
    pool = lab(
        tenant, "drfh", "indivisible", {}, servers=[("e", {}, 4, None)], workloads={"any": {}}
    )
    decide(pool, NOON)
    pool_meter(pool_id=pool.pk, now=NOON + HOUR)
    (row,) = window_table(pool, resources_of(pool), NOON + HOUR).rows
    assert [name for name, _ in row.parts[0]] == ["used", "alone"]
