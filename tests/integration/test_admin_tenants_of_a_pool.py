"""A pool's page and a run's show a page of the tenants; every one of them can be found."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from allocator_service.allocation.admin.tabs import all_tabs
from allocator_service.allocation.long_term.metering import pool_meter
from allocator_service.allocation.models import Run
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.pools.member_services import member_put
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.services import TenantDraft, tenant_create, tenants_create
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests.integration.conftest import NOON, vector

pytestmark = pytest.mark.django_db(transaction=True)
MEMBERS = 60


@pytest.fixture
def many(pool):
    """60 tenants, each with a server; each wants what is as large as its number is small."""
    tenants = tenants_create(
        drafts=[TenantDraft(f"t{n:02d}", f"Group {n}") for n in range(MEMBERS)], now=NOON
    )
    servers_contribute(
        pool=pool, drafts=[ServerDraft("s", vector(4, 16), tenant) for tenant in tenants], now=NOON
    )
    drafts = [
        WorkloadDraft(tenant, "w", vector(1, 1), tasks=1 + (MEMBERS - n) // 30)
        for n, tenant in enumerate(tenants)
    ]
    workloads_submit(pool=pool, drafts=drafts, now=NOON)
    recompute_pool(pool_id=pool.pk, clock=lambda: NOON)
    pool_meter(pool_id=pool.pk, now=NOON + timedelta(minutes=62))
    entries_seal(now=NOON)
    return pool


@pytest.fixture
def pages(client):
    client.force_login(get_user_model().objects.create_superuser("operator"))
    return client


def overview(pages, pool, query=""):
    return pages.get(reverse("admin:pools_pool_tab_members", args=[pool.pk]) + query)


def slugs(answer):
    return [row.slug for row in answer.context["shares"].rows]


def test_the_pages_of_tenants_have_each_once_and_those_with_most_first(pages, many):
    shown = [slug for page in (1, 2, 3) for slug in slugs(overview(pages, many, f"?page={page}"))]
    assert len(shown) == MEMBERS == len(set(shown))
    assert shown[0] == "t00"  # 3 tasks; all others of 2 or 1 by name
    assert shown[1:31] == [f"t{n:02d}" for n in range(1, 31)]
    page = " ".join(overview(pages, many).content.decode().split())
    assert "1 to 25 of 60 tenants" in page
    assert "cpu: allocated, entitled and contributed by tenants 1 to 25" in page


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?q=t47", ["t47"]),
        ("?q=group+47", ["t47"]),
        ("?q=T4&order=name", [f"t{n}" for n in range(40, 50)]),
        ("?q=nobody", []),
        ("?q=%25", []),
        ("?order=sideways&page=minus", ["t00", *[f"t{n:02d}" for n in range(1, 25)]]),
        ("?order=name&page=99", [f"t{n:02d}" for n in range(50, 60)]),
    ],
)
def test_a_tenant_is_found_by_its_slug_or_name(pages, many, query, found):
    assert slugs(overview(pages, many, query)) == found


def test_the_numbers_are_the_decisions_with_units_and_reasons(pages, fig2):
    recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    (u1, u2) = overview(pages, fig2, "?order=name").context["shares"].rows
    assert (u1.slug, u1.workloads, u1.best_effort) == ("u1", 1, False)
    assert u1.contributed == [2, 12]
    assert u2.contributed == [12, 2]
    assert u1.entitled == u2.entitled == [7, 7]  # weights are explicit and equal
    assert u1.allocated == pytest.approx([2, 10])
    assert u2.allocated == pytest.approx([10, 2])
    assert u1.share == pytest.approx(10 / 14)
    page = " ".join(overview(pages, fig2).content.decode().split())
    assert "<th>memory (GiB)</th>" in page
    text = " ".join(re.sub("<[^>]*>", " ", page).split())
    assert "2 allocated 7 entitled 2 contributed" in text
    assert "1 weight 71.43 % share 71.43 % weighted" in text
    run = Run.objects.get()
    assert reverse("admin:allocation_run_explanation", args=[run.pk, "u1"]) in page


def test_each_reason_has_the_number_of_its_workloads_where_there_are_several(pages, fig2):
    recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    assert [len(row.reasons) for row in overview(pages, fig2).context["shares"].rows] == [1, 1]
    u1 = Tenant.objects.get(slug="u1")
    small = [WorkloadDraft(u1, f"small-{n}", vector(0.1, 0.1), tasks=1) for n in (1, 2)]
    workloads_submit(pool=fig2, drafts=small, now=NOON)
    recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    (u1, _) = overview(pages, fig2, "?order=name").context["shares"].rows
    assert u1.reasons == [
        "2 workloads: Its tenant has the level of all waiting tenants: more for it would mean less"
        " for a tenant that has less.",
        "1 workload: All of cpu is used up on the servers it may run on.",
    ]


def test_a_member_without_a_workload_is_found_too(pages, fig2):
    idle = tenant_create(slug="idle", name="Idle", now=NOON)
    member_put(pool=fig2, tenant=idle, weight=1, best_effort=True, version=None, now=NOON)
    recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    (row,) = overview(pages, fig2, "?q=idle").context["shares"].rows
    assert (row.workloads, row.share, row.best_effort) == (0, None, True)
    assert row.entitled == row.allocated == [0, 0]
    assert "It has no workload in the decision." in overview(pages, fig2).content.decode()


def test_the_runs_page_has_the_same_tenants_of_its_own_decision(pages, fig2):
    first = recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    url = reverse("admin:allocation_run_change", args=[first.pk])
    assert [row.slug for row in pages.get(f"{url}?q=u2").context["shares"].rows] == ["u2"]


@pytest.mark.parametrize("tab", all_tabs(), ids=lambda tab: tab.name)
def test_a_tab_takes_as_many_statements_whatever_the_number_of_tenants(pages, fig2, many, tab):
    url = reverse(tab.url_name, args=[many.pk])
    pages.get(url)  # reads content types once
    with CaptureQueriesContext(connection) as queries:
        page = pages.get(f"{url}?page=2&days=30")
    assert page.status_code == 200
    tables = [re.findall(r'FROM "?(\w+)', query["sql"])[:1] for query in queries]
    assert len(queries) <= 30, tables
