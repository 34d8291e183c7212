"""Workloads: accepted when servers may come later, refused when malformed."""

import pytest

from allocator_service.core.errors import Conflict, TooLarge, Unacceptable
from allocator_service.pools.models import Membership, Pool
from allocator_service.pools.server_services import server_drain
from allocator_service.workloads.models import Workload, WorkloadState
from allocator_service.workloads.services import (
    WorkloadDraft,
    WorkloadSettings,
    workload_update,
    workload_withdraw,
    workloads_submit,
)
from tests.integration.conftest import settings, vector

pytestmark = pytest.mark.django_db


def submit(pool, now, *drafts):
    return workloads_submit(pool=pool, drafts=list(drafts), now=now)


def test_submitting_admits_the_tenant_and_keeps_the_order(pool, tenant, now):
    drafts = [WorkloadDraft(tenant("u9"), f"job-{n}", vector(1, n)) for n in range(5)]
    submitted = submit(pool, now, *drafts)
    assert list(Workload.objects.order_by("id").values_list("id", flat=True)) == submitted.ids
    assert Membership.objects.filter(pool=pool, tenant=tenant("u9")).exists()
    assert submitted.generation == 2


@pytest.mark.parametrize(
    ("demand", "selector", "reason"),
    [
        ((1, 1), {}, ""),
        ((10**9, 1), {}, ""),
        ((1, 1), {"zone": "mars"}, "no_eligible_server"),
        ((1, 1), {"zone": []}, "no_eligible_server"),
    ],
)
def test_what_cannot_run_now_is_accepted_and_marked(fig2, tenant, now, demand, selector, reason):
    submit(fig2, now, WorkloadDraft(tenant("u1"), "w", vector(*demand), server_selector=selector))
    assert Workload.objects.get(name="w").unsatisfiable == reason


def test_a_resource_that_only_draining_servers_have_is_absent(fig2, tenant, now):
    for server in fig2.servers.all():
        server_drain(server=server, now=now)
    submit(fig2, now, WorkloadDraft(tenant("u1"), "w", vector(1, 1)))
    assert Workload.objects.get(name="w").unsatisfiable == "resource_absent"


def test_a_demand_of_nothing_is_refused_with_its_place(pool, tenant, now):
    with pytest.raises(Unacceptable) as refused:
        submit(pool, now, WorkloadDraft(tenant("u1"), "w", vector(0, 0), pointer="/3"))
    assert [(e.code, e.pointer) for e in refused.value.errors] == [("demand.zero", "/3/demand")]
    assert not Workload.objects.exists()


def test_more_than_ten_thousand_workloads_are_split_by_their_sender(pool, tenant, now):
    draft = WorkloadDraft(tenant("u1"), "w", vector(1, 1))
    with pytest.raises(TooLarge):
        submit(pool, now, *[draft] * 10_001)


def test_names_are_unique_per_tenant_until_withdrawn(fig2, tenant, now):
    submit(fig2, now, WorkloadDraft(tenant("u2"), "analysis", vector(1, 1)))
    with pytest.raises(Conflict) as refused:
        submit(fig2, now, WorkloadDraft(tenant("u1"), "analysis", vector(1, 1), pointer="/0"))
    assert refused.value.errors[0].pointer == "/0/name"
    first = Workload.objects.get(name="analysis", tenant=tenant("u1"))
    workload_withdraw(workload=first, now=now)
    submit(fig2, now, WorkloadDraft(tenant("u1"), "analysis", vector(1, 1)))
    assert Workload.objects.filter(name="analysis").count() == 3


def test_a_withdrawn_workload_stays_as_it_was(fig2, now):
    workload = Workload.objects.get(name="analysis")
    workload_withdraw(workload=workload, now=now)
    generation = Pool.objects.get(pk=fig2.pk).generation
    assert workload_withdraw(workload=workload, now=now).version == 2
    assert Pool.objects.get(pk=fig2.pk).generation == generation
    changed = WorkloadSettings("x", vector(1, 1), None, 0, {}, WorkloadState.ACTIVE)
    with pytest.raises(Conflict) as refused:
        workload_update(workload=workload, settings=changed, version=2, now=now)
    assert refused.value.code == "workload.withdrawn"


def test_a_selector_needs_a_policy_that_places(db, tenant, now):
    from allocator_service.allocation.policies import policy_choose
    from allocator_service.pools.services import pool_create

    pool = pool_create(
        slug="flat", settings=settings(policy=policy_choose("drf", None, {})), now=now
    )
    draft = WorkloadDraft(tenant("u1"), "w", vector(1, 1), server_selector={"a": "b"}, pointer="/0")
    with pytest.raises(Unacceptable) as refused:
        submit(pool, now, draft)
    assert [(e.code, e.pointer) for e in refused.value.errors] == [
        ("policy.no_placement", "/0/server_selector")
    ]
