"""A pool's own past: what ran becomes tasks, servers join and leave, prices are the pool's."""

from datetime import timedelta
from decimal import Decimal

import pytest

from allocator_service.backtests.histories import servers_between, submitted_between
from allocator_service.pools.models import Server
from allocator_service.pools.server_services import ServerDraft, server_retire, servers_contribute
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests.integration.billing.conftest import used
from tests.integration.conftest import NOON, vector

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def tasks_of(found):
    trace = found.trace
    return sorted(
        (
            found.tenants[found.workload_tenant[workload]],
            found.demand[workload].tolist(),
            submit,
            duration,
        )
        for workload, submit, duration in zip(
            trace.workload.tolist(), trace.submit.tolist(), trace.duration.tolist(), strict=True
        )
    )


def between(pool, hours=10, tenant=None):
    return submitted_between(pool=pool, tenant=tenant, start=NOON, end=NOON + hours * HOUR)


@pytest.fixture
def analysis(pool, tenant):
    """A workload of `ada` whose tasks need one core and two GiB."""
    draft = WorkloadDraft(tenant("ada"), "analysis", vector(1, 2), priority=3)
    submitted = workloads_submit(pool=pool, drafts=[draft], now=NOON)
    return pool.workloads.get(pk=submitted.ids[0])


def ran(pool, workload, tasks, since, until, **more):
    for resource, demand in zip(("cpu", "memory"), workload.demand, strict=True):
        used(
            pool, workload.tenant, None, demand * tasks, NOON + since * HOUR, NOON + until * HOUR,
            workload_id=workload.pk, resource=resource, **more,
        )  # fmt: skip


def test_metered_levels_become_tasks_of_which_the_last_ends_first(pool, analysis):
    ran(pool, analysis, 2, 0, 1)
    ran(pool, analysis, 3, 1, 2)
    ran(pool, analysis, 1, 2, 4)
    ran(pool, analysis, 1, 5, 6)
    assert tasks_of(between(pool)) == [
        ("ada", [1.0, 2.0], 0.0, 2 * 3600.0),
        ("ada", [1.0, 2.0], 0.0, 4 * 3600.0),
        ("ada", [1.0, 2.0], 3600.0, 3600.0),
        ("ada", [1.0, 2.0], 5 * 3600.0, 3600.0),
    ]


def test_parts_of_tasks_count_as_whole_ones(pool, analysis):
    ran(pool, analysis, Decimal("1.5"), 0, 1)
    assert len(tasks_of(between(pool))) == 2


def test_an_event_is_a_job_and_its_correction_counts(pool, analysis):
    ran(pool, analysis, 3, 0, 2, event_id="e1", source="slurm")
    (cpu, memory) = pool.entries.order_by("resource")
    for entry, less in ((cpu, 1), (memory, 2)):
        used(
            pool, analysis.tenant, None, -less, entry.start, entry.end, workload_id=analysis.pk,
            resource=entry.resource, kind="correction", corrects=entry.pk, event_id="c",
        )  # fmt: skip
    found = between(pool)
    assert tasks_of(found) == [("ada", [1.0, 2.0], 0.0, 7200.0)] * 2
    assert set(found.trace.job.tolist()) == {0}
    assert found.priority.tolist() == [3]


def test_an_event_that_is_no_number_of_tasks_is_one_of_all_it_used(pool, analysis, tenant):
    used(pool, analysis.tenant, None, 5, NOON, NOON + HOUR, workload_id=analysis.pk, event_id="a")
    used(pool, tenant("bob"), None, 7, NOON, NOON + HOUR, event_id="b")
    amounts = [demand for _, demand, _, _ in tasks_of(between(pool))]
    assert amounts == [[5.0, 0.0], [7.0, 0.0]]


def test_what_reaches_beyond_the_period_is_cut(pool, analysis):
    ran(pool, analysis, 1, -3, 30, event_id="long")
    ran(pool, analysis, 1, 11, 12, event_id="later")
    assert tasks_of(between(pool)) == [("ada", [1.0, 2.0], 0.0, 36_000.0)]


def test_a_tenants_part_has_its_own_alone(pool, analysis, tenant):
    ran(pool, analysis, 1, 0, 1)
    used(pool, tenant("bob"), None, 7, NOON, NOON + HOUR, event_id="b")
    assert [row[0] for row in tasks_of(between(pool, tenant=tenant("ada")))] == ["ada"]


def test_servers_join_and_leave_when_they_were_contributed(pool, tenant):
    def contribute(name, cpu, by, hours):
        made = servers_contribute(
            pool=pool, drafts=[ServerDraft(name, vector(cpu, 8), by)], now=NOON + hours * HOUR
        )
        return Server.objects.get(pk=made.ids[0])

    for number in range(3):
        contribute(f"a{number}", 4, tenant("ada"), -5)
    leaves = contribute("b", 2, None, -5)
    contribute("c", 16, tenant("bob"), 2)
    contribute("d", 32, tenant("bob"), 20)
    server_retire(server=leaves, version=None, now=NOON + 4 * HOUR)
    found = servers_between(pool=pool, tenant=None, start=NOON, end=NOON + 10 * HOUR)
    assert found.capacity == [[4.0, 8.0], [2.0, 8.0], [16.0, 8.0]]
    assert found.count == [3, 1, 1]
    assert found.contributed_by == ["ada", None, "bob"]
    assert found.changes == [(4 * 3600.0, 3, False), (2 * 3600.0, 4, True)]
    own = servers_between(pool=pool, tenant=tenant("bob"), start=NOON, end=NOON + 10 * HOUR)
    assert own.capacity == [[16.0, 8.0]]
