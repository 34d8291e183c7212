"""The admin's first page says what needs a person, in a few statements whatever the number of pools."""

import re
from datetime import timedelta

import pytest
import time_machine
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from allocator_service.allocation.models import Run
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.allocation.services import METERING, heartbeat_record
from allocator_service.core.templatetags.shown import age
from allocator_service.enforcement.watching import enforcement_watch
from allocator_service.pools.models import RecomputeJob
from allocator_service.pools.services import pool_create
from allocator_service.tenants.services import api_key_create
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests import factories
from tests.integration.conftest import NOON, settings, vector

pytestmark = pytest.mark.django_db(transaction=True)
MOST_STATEMENTS = 25


@pytest.fixture
def at_noon():
    with time_machine.travel(NOON, tick=False) as clock:
        yield clock


@pytest.fixture
def index(client, at_noon):
    client.force_login(get_user_model().objects.create_superuser("operator"))
    for process in ("worker", "relay", "sender", "backtests"):
        heartbeat_record(process=process, now=NOON)

    def page():
        return client.get(reverse("admin:index"))

    return page


def notices(page):
    return [
        (notice.urgency.value, notice.text.replace("\N{NO-BREAK SPACE}", " "))
        for notice in page.context["board"].notices
    ]


def unbroken(text):
    """Return a text in which no number is parted from the unit after it."""
    return re.sub(r"(?<=\d) (?=\D)", "\N{NO-BREAK SPACE}", text)


def rows(page, title):
    (table,) = [table for table in page.context["board"].tables if table.title == title]
    return [[cell.text for cell in row] for row in table.rows]


def test_nothing_needs_a_person_where_all_is_well(index, fig2):
    recompute_pool(pool_id=fig2.pk, clock=lambda: NOON - timedelta(seconds=83))
    page = index()
    assert notices(page) == []
    assert "Nothing at present." in page.content.decode()
    (row,) = rows(page, "Pools")
    assert row == [
        "lab", "Fair shares on real servers (DRFH)", "3", unbroken("1 min 23 s") + " ago", "2", "2",
        unbroken("cpu 86 %, memory 86 %"), "0", "decided",
    ]  # fmt: skip
    assert rows(page, "Processes and lateness")[0] == [
        "worker",
        unbroken("0 s") + " ago",
        "at work",
    ]


def test_what_is_wrong_is_said_with_a_link_to_it(index, fig2, tenant, at_noon):
    large = WorkloadDraft(tenant("u1"), "large", vector(999, 1), server_selector={"none": "such"})
    workloads_submit(pool=fig2, drafts=[large], now=NOON)
    recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    failed = Run.objects.create(
        pool=fig2,
        status="failed",
        error={"code": "run.internal", "detail": "It broke."},
        created_at=NOON,
        finished_at=NOON + timedelta(hours=1),
    )
    workloads_submit(
        pool=fig2, drafts=[WorkloadDraft(tenant("u1"), "more", vector(1, 1))], now=NOON
    )
    api_key_create(
        scope="billing", name="bills", tenant=None, expires_at=NOON + timedelta(days=3), now=NOON
    )
    heartbeat_record(process=METERING, now=NOON - timedelta(hours=2))
    at_noon.move_to(NOON + timedelta(minutes=5))
    page = index()
    said = notices(page)
    assert [urgency for urgency, _ in said] == sorted(urgency for urgency, _ in said)
    texts = {text: urgency for urgency, text in said}
    assert texts == {
        "lab: the newest run failed. It broke. (run.internal)": "error",
        "lab: a decision is due for 4 min 59 s.": "error",
        "The worker is silent: 5 min ago. Changes are accepted and not decided.": "error",
        "The relay is silent: 5 min ago. Changes wait, and events and entries get no number.": "error",
        "The sender is silent: 5 min ago. Webhooks are not sent.": "error",
        "The worker for backtests is silent: 5 min ago."
        " Backtests wait; everything else goes on.": "error",
        "Metering is late by 2 h 5 min: the oldest interval that is over and not metered.": "error",
        "1 workload in 1 pool cannot run at present.": "warning",
        "1 key to end within 14 days: bills.": "warning",
    }
    content = page.content.decode()
    assert reverse("admin:allocation_run_change", args=[failed.pk]) in content
    assert rows(page, "Pools")[0][-1] == "failed"


def test_pools_that_need_somebody_come_first_and_25_are_shown(index, fig2):
    for number in range(30):
        pool_create(slug=f"calm-{number:02d}", settings=settings(), now=NOON)
    RecomputeJob.objects.exclude(pool=fig2).update(wanted=1, settled=1)
    RecomputeJob.objects.filter(pool=fig2).update(run_after=NOON - timedelta(minutes=2))
    page = index()
    shown = rows(page, "Pools")
    assert [row[0] for row in shown] == ["lab", *(f"calm-{number:02d}" for number in range(24))]
    assert shown[0][-1] == "overdue"
    assert "6 more pools: all of them" in page.content.decode()


def test_as_many_statements_for_forty_pools_as_for_one(index, fig2):
    recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    index()  # reads content types once
    with CaptureQueriesContext(connection) as of_one:
        index()
    for number in range(40):
        pool_create(slug=f"more-{number:02d}", settings=settings(), now=NOON)
    with CaptureQueriesContext(connection) as of_many:
        index()
    assert len(of_many) == len(of_one) <= MOST_STATEMENTS, [query["sql"] for query in of_many]


def test_who_may_not_see_pools_is_told_nothing_of_them(index, fig2, client):
    user = get_user_model().objects.create_user("auditor", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_entry"))
    client.force_login(user)
    page = index()
    assert page.context["board"].tables == []
    assert "changes" not in page.context
    assert ">lab<" not in page.content.decode()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0 s"), (0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3605, "1 h"), (3660, "1 h 1 min"),
     (90_000, "1 d 1 h"), (86_400 * 400, "400 d")],
)  # fmt: skip
def test_an_age_is_said_in_its_two_largest_units(seconds, words):
    assert age(timedelta(seconds=seconds)) == unbroken(words)


def test_tenants_whose_jobs_wait_are_named_with_the_schedulers_reason(index, fig2):
    recompute_pool(pool_id=fig2.pk, clock=lambda: NOON - timedelta(seconds=83))
    run = Run.objects.get(pool=fig2)
    factories.blocked(run, "u1")
    expected = (
        "warning",
        f"{fig2.slug}: jobs of 1 tenant wait in the scheduler although more was decided than they"
        " use. u1: AssocGrp<b>Limit.",
    )
    assert expected in notices(index())
    later = NOON + timedelta(seconds=1)
    factories.enforcement_report(run, now=later, reported_at=later)
    enforcement_watch(pool=fig2, now=later)
    assert expected not in notices(index())


def test_a_page_of_the_admin_names_its_icon(index):
    """Without it a browser asks for /favicon.ico, which does not exist."""
    assert '<link rel="icon" href="data:,">' in index().content.decode()
