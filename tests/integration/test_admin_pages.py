"""Every page of the admin opens, and history offers neither adding nor changing."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest
import time_machine
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.urls import reverse

from allocator_service.allocation.admin.overview import use_of
from allocator_service.allocation.admin.tabs import all_tabs
from allocator_service.allocation.audit.decisions import run_verify
from allocator_service.allocation.long_term.metering import pool_meter
from allocator_service.allocation.models import Allocation, Run
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.allocation.selectors import certificate_of
from allocator_service.backtests.models import Backtest
from allocator_service.backtests.selectors import Holder
from allocator_service.backtests.services import backtest_request
from allocator_service.billing.credit_notes import credit_note_create
from allocator_service.billing.models import Closing, Posting, Rerating, Statement
from allocator_service.billing.months import month_of
from allocator_service.billing.plans.services import (
    PlanDraft,
    RateDraft,
    plan_create,
    plan_publish,
)
from allocator_service.billing.reratings import rerating_apply
from allocator_service.billing.statements.closing import month_close
from allocator_service.core.models import AuditEntry, Event
from allocator_service.enforcement.models import Agent, Blockage, Drift, Report
from allocator_service.enforcement.services import ReportDraft, TenantReport, report_put
from allocator_service.enforcement.watching import enforcement_watch
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.ledger.models import Block, Entry, UsageSource
from allocator_service.pools.group_services import (
    GroupDraft,
    GroupSettings,
    group_retire,
    groups_create,
)
from allocator_service.pools.models import Group, Pool, Server
from allocator_service.pools.services import pool_update
from allocator_service.tenants.models import Person, Tenant
from allocator_service.tenants.people import (
    Identity,
    RoleGroups,
    group_grant_create,
    person_admit,
)
from allocator_service.webhooks.models import Delivery, Webhook
from allocator_service.webhooks.services import WebhookSettings, webhook_create, webhook_test
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from api.contract.documents import read_document
from api.v1.backtest_documents import BacktestRequest, asked_of
from tests.backtests import asked as trace_asked
from tests.backtests import work
from tests.form_fields import untouched
from tests.integration.conftest import NOON, settings, vector

pytestmark = pytest.mark.django_db(transaction=True)

HISTORY = {
    Run, Allocation, Event, AuditEntry, Entry, Block, Closing, Statement, Posting, Rerating,
    Webhook, Delivery, Backtest,
    Agent, UsageSource, Report, Drift, Blockage, Person,
}  # fmt: skip
OCTOBER = datetime(2026, 10, 1, tzinfo=UTC)


@pytest.fixture
def pages(client, fig2):
    client.force_login(get_user_model().objects.create_superuser("operator"))
    groups = [GroupDraft("ml-group", GroupSettings("Learning", None))]
    groups_create(pool=fig2, drafts=groups, now=NOON)
    recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    pool_meter(pool_id=fig2.pk, now=NOON + timedelta(minutes=61))
    entries_seal(now=NOON)
    bill(fig2)
    told = WebhookSettings("https://receiver.example/", [])
    made = webhook_create(
        tenant=None, pool=fig2, settings=told, allowed=[], secret_key="tests", now=NOON
    )
    webhook_test(webhook=made.webhook, now=NOON)
    enforce(fig2, reported_at=NOON)
    UsageSource.objects.create(pool=fig2, source="s", cluster="west")
    group_grant_create(group="biology", tenant=Tenant.objects.first(), now=NOON)
    identity = Identity("https://id.example", "ada-1", "Ada", ["biology"])
    person_admit(identity=identity, role_groups=RoleGroups("", ""), now=NOON)
    backtested(fig2)
    return client


def backtested(pool):
    """One that has succeeded, asked for in the admin."""
    asked = read_document(BacktestRequest, trace_asked(name="<b>night</b>"))
    backtest_request(
        holder=Holder(user="operator"), tenant=None, pool=pool, plan=None, names=None,
        asked=asked_of(asked), now=NOON,
    )  # fmt: skip
    work()


def enforce(pool, *, reported_at, applied=1, used=1):
    """u1 was told 2 CPUs and 10 GiB; the agent says what it applied of it. u2 it does not know."""
    run = Run.objects.filter(pool=pool, effective_until=None).get()
    tenants = [
        TenantReport(
            "u1",
            {"cpu": applied, "memory": 10},
            {"cpu": used},
            3,
            5,
            ["<b>one job is held</b>"],
            "<b>AssocGrpCpuLimit</b>",
            {"cpu": 1},
        )
    ]
    draft = ReportDraft(
        "slurm-lab", "slurm", "partition", run.pk, run.generation, "PT15S", reported_at, tenants, []
    )
    report_put(pool=pool, draft=draft, now=reported_at)
    enforcement_watch(pool=pool, now=reported_at)


def bill(pool):
    """October is closed, and rerated afterwards."""
    prices = [RateDraft("cpu", own=Decimal("0.01"), pooled=Decimal("0.02"))]
    plan = plan_create(pool=pool, draft=PlanDraft("2026", OCTOBER, rates=prices), now=NOON)
    plan_publish(plan=plan, version=None, now=NOON)
    credit_note_create(
        pool=pool, tenant=Tenant.objects.first(), amount=Decimal(1), reason="outage", now=NOON
    )
    closing = month_close(pool=pool, month=month_of(OCTOBER, "UTC"), now=NOON)
    draft = PlanDraft("dearer", OCTOBER, closing.end, rates=prices)
    plan = plan_create(pool=pool, draft=draft, now=NOON)
    rerating_apply(pool=pool, plan=plan, reason="agreed", now=NOON)


OURS = [model for model in admin.site._registry if model._meta.app_label != "axes"]


def test_every_page_opens(pages, subtests):
    # What its own page may delete goes last: that of users deletes who asks.
    for model in sorted(OURS, key=lambda model: (model._meta.label == "auth.User", str(model))):
        with subtests.test(model=model._meta.label):
            its_pages_open(pages, model)


def its_pages_open(pages, model):
    route = f"admin:{model._meta.app_label}_{model._meta.model_name}"
    assert pages.get(reverse(f"{route}_changelist")).status_code == 200
    assert pages.get(reverse(f"{route}_add")).status_code == (403 if model in HISTORY else 200)
    for row in model._default_manager.all()[:1]:
        page = pages.get(reverse(f"{route}_change", args=[row.pk]))
        assert page.status_code == 200
        deleting = pages.post(reverse(f"{route}_delete", args=[row.pk]), {"post": "yes"})
        if model._meta.app_label != "auth":
            assert deleting.status_code == 403
            assert b'name="_save"' not in page.content or model not in HISTORY


def test_history_is_read_only_for_superusers_too(pages, subtests):
    for model in sorted(HISTORY, key=str):
        with subtests.test(model=model._meta.label):
            row = model._default_manager.first()
            before = model._default_manager.values().first()
            route = f"admin:{model._meta.app_label}_{model._meta.model_name}_change"
            url = reverse(route, args=[row.pk])
            assert pages.post(url, {"status": "failed", "tasks": 7, "kind": "x"}).status_code == 403
            assert model._default_manager.values().first() == before


def test_an_empty_list_states_what_will_appear_and_when(client, subtests):
    client.force_login(get_user_model().objects.create_superuser("operator"))
    request = client.get("/admin/").wsgi_request
    for model, registered in admin.site._registry.items():
        route = f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"
        url = reverse(route)
        if registered.has_add_permission(request) or model._meta.app_label == "auth":
            continue
        with subtests.test(model=model._meta.label):
            page = client.get(url).content.decode()
            assert registered.appears.endswith(".")
            rows = model._default_manager.exists()
            assert (
                f"No {model._meta.verbose_name_plural} yet. {registered.appears}" in page
            ) != rows


def test_the_index_names_what_operators_look_for(pages):
    index = pages.get("/admin/").content.decode()
    captions = set(re.findall(r"<caption>\s*<a [^>]*>\s*(.*?)\s*</a>", index))
    assert captions >= {
        "Decisions", "Sign-ins", "Ledger", "Money", "Pools and servers", "Schedulers",
        "Backtests", "Tenants and keys", "Webhooks", "Workloads", "Audit and events",
    }  # fmt: skip


def test_a_pool_is_made_by_the_form_as_it_opens(pages):
    form = pages.get("/admin/pools/pool/add/").context["adminform"].form
    sent = untouched(form) | {"slug": "new", "name": "New"}
    made = pages.post("/admin/pools/pool/add/", sent)
    assert made.status_code == 302, made.context["adminform"].form.errors
    pool = Pool.objects.get(slug="new")
    assert (pool.policy_name, pool.policy_mode, pool.weights) == (
        "drfh",
        "divisible",
        "contribution",
    )
    assert (pool.window_kind, pool.window_length, pool.decision_interval) == (
        "tumbling",
        "P7D",
        "PT1M",
    )


def tab(pages, pool, name, query=""):
    """The text of one of the pool's tabs."""
    return pages.get(reverse(f"admin:pools_pool_tab_{name}", args=[pool.pk]) + query)


def test_the_tabs_show_who_brought_and_got_what_and_why_no_newer_decision_is(pages, fig2):
    shown = {
        "members": (2, ["What the window remembers", "allocated, entitled and contributed", "u2"]),
        "servers": (2, ["used and free", "high-memory", "Classes of identical servers"]),
        "demand": (0, ["analysis", "simulation", "All of cpu is used up"]),
        "decisions": (2, ["Seconds in the solver, 1 run<", "Least weighted share", "Succeeded"]),
        "money": (0, ["October 2026", "November 2026", "2026</a>", "Published", "UTC"]),
        "enforcement": (0, ["2 of 2 tenants"]),
    }
    all_titles = {tab.name: tab.title for tab in all_tabs()}
    assert set(all_titles) == {*shown, "now", "history"}
    with time_machine.travel(NOON + timedelta(minutes=3), tick=False):
        for name, (charts, words) in shown.items():
            page = tab(pages, fig2, name).content.decode()
            assert page.count('class="chart"') == charts, name
            assert [each for each in words if each not in page] == [], name
            assert re.findall('aria-current="page">([^<]+)</a></li>', page) == [all_titles[name]]
        page = tab(pages, fig2, "history", "?days=30").content.decode()
        assert "Sharing degree in lab" in page
        assert "server.contribute" in page
        assert re.findall('aria-current="page">(.*?)</a> ', page) == ["30 days"]
    Run.objects.create(
        pool=fig2,
        status="failed",
        error={"code": "run.internal", "detail": "It broke."},
        created_at=NOON,
        finished_at=NOON + timedelta(hours=1),
    )
    page = pages.get(reverse("admin:pools_pool_overview", args=[fig2.pk])).content.decode()
    assert "It broke. (run.internal)" in page


def test_servers_are_in_use_as_decided_whatever_is_asked_for_since(pages, fig2):
    with time_machine.travel(NOON + timedelta(minutes=3), tick=False):
        before = tab(pages, fig2, "servers").context["rows"]
        fig2.workloads.update(demand=vector(3, 3))
        after = tab(pages, fig2, "servers").context["rows"]
        assert [(row.label, row.amounts) for row in after] == [
            (row.label, row.amounts) for row in before
        ]


def test_a_server_in_whole_use_has_nothing_free():
    taken, capacity = np.array([64 - 1e-12, 64 + 1e-12, 63, 0]), np.array([64.0, 64, 64, 0])
    assert use_of(taken, capacity).tolist() == [64, 64, 63, 0]


def test_a_tab_shows_what_is_decided_enforced_and_used(pages, fig2):
    url = reverse("admin:pools_pool_tab_enforcement", args=[fig2.pk])
    page = " ".join(pages.get(url).content.decode().split())
    text = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", page))
    assert "silent since 20 November 2026, 12:00:00 UTC . The limits stay as they are." in text
    assert "2 of 2 tenants drift:" in text
    assert (
        "u1 What is wrong &lt;b&gt;one job is held&lt;/b&gt; cpu: the scheduler has 1 less than was"
        " decided. Tasks 5 running, 3 pending cpu, decided 2 cpu, enforced 1 cpu, used 1 memory, decided"
        " 10 memory, enforced 10 memory, used 0 " in text
    )
    assert "No agent reported it." in text
    found = " ".join(pages.get(f"{url}?q=u2").content.decode().split())
    assert "2 of 2 tenants drift:" in found
    assert "1 has “u2” in the slug." in found
    assert "one job is held" not in found


def test_the_numbers_of_a_drift_are_for_people(pages, fig2):
    drift = Drift.objects.first()
    drift.payload = {
        "decided": {"cpu": "63.999999999999996", "memory": "1234.5"},
        "agent": "slurm",
        "problems": [],
        "used": None,
    }
    drift.save()
    page = pages.get(reverse("admin:enforcement_drift_change", args=[drift.pk])).content.decode()
    assert "decided: cpu 64, memory 1,234" in page
    assert "used: not known<br>agent: slurm<br>" in page
    assert "problems: none" in page


def test_the_overview_of_a_time_sharing_pool_has_its_timetable(pages, fig2):
    group_retire(group=Group.objects.get(), version=None, now=NOON)
    changed = settings(policy=policy_choose("tda", None, {"period_seconds": 600}))
    pool_update(pool=fig2, settings=changed, version=None, now=NOON)
    recompute_pool(pool_id=fig2.pk, clock=lambda: NOON + timedelta(minutes=2))
    page = pages.get(reverse("admin:pools_pool_overview", args=[fig2.pk])).content.decode()
    assert "Who runs when, in periods of 10 minutes" in page
    assert "u1: analysis" in page


def test_the_overview_says_how_much_a_search_that_ended_early_left_open(pages, fig2, tenant):
    url = reverse("admin:pools_pool_overview", args=[fig2.pk])
    assert "below the best" not in pages.get(url).content.decode()
    group_retire(group=Group.objects.get(), version=None, now=NOON)
    changed = settings(policy=policy_choose("tda", None, {"effort": 1e-12}))
    pool_update(pool=fig2, settings=changed, version=None, now=NOON)
    more = [
        WorkloadDraft(tenant(f"u{1 + n % 2}"), f"more-{n}", vector(3 + n, 5 - n)) for n in range(3)
    ]
    workloads_submit(pool=fig2, drafts=more, now=NOON)
    recompute_pool(pool_id=fig2.pk, clock=lambda: NOON + timedelta(minutes=2))
    run = Run.objects.get(pool=fig2, effective_until=None)
    assert run.summary["gap"] > 1e-9
    assert certificate_of(run)["rounds"][-1]["proven"] is False
    assert run_verify(run)["valid"]
    page = pages.get(url).content.decode()
    assert f"{100 * run.summary['gap']:.2g} % below the best" in page


def test_an_entry_is_corrected_by_another_with_a_reason(pages):
    entry = Entry.objects.filter(kind="usage").order_by("id")[0]
    assert (
        "Correct</a>"
        in pages.get(reverse("admin:ledger_entry_change", args=[entry.pk])).content.decode()
    )
    url = reverse("admin:ledger_entry_correct", args=[entry.pk])
    assert pages.get(url).status_code == 200
    before = Entry.objects.count()
    for wrong in (
        {"quantity": "0"},
        {"quantity": "-1", "reason": "x"},
        {"quantity": "x", "reason": "x"},
    ):
        assert pages.post(url, wrong).status_code == 200
    assert Entry.objects.count() == before
    pages.post(url, {"quantity": "0", "reason": "the node\nwas off"})
    correction = Entry.objects.get(kind="correction")
    assert (correction.corrects, correction.quantity) == (entry.pk, -entry.quantity)
    assert correction.reason == "the node was off"
    audit = AuditEntry.objects.get(action="entry.correct")
    assert audit.actor.endswith("operator")
    page = pages.get(reverse("admin:ledger_entry_change", args=[correction.pk])).content.decode()
    assert "Correct</a>" not in page
    entry.refresh_from_db()
    assert entry.quantity == -correction.quantity


def test_who_may_only_look_at_the_ledger_corrects_nothing(pages, client):
    user = get_user_model().objects.create_user("auditor", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_entry"))
    client.force_login(user)
    entry = Entry.objects.order_by("id")[0]
    page = client.get(reverse("admin:ledger_entry_change", args=[entry.pk])).content.decode()
    assert "Correct</a>" not in page
    url = reverse("admin:ledger_entry_correct", args=[entry.pk])
    assert client.post(url, {"quantity": "0", "reason": "x"}).status_code == 403


@pytest.mark.parametrize("action", ["drain", "retire"])
def test_what_an_action_on_servers_would_do_is_shown_before_and_wants_a_reason(pages, fig2, action):
    server = Server.objects.get(name="high-cpu")
    url = reverse("admin:pools_server_changelist")
    asked = {"action": action, "_selected_action": [str(server.pk)]}
    page = pages.post(url, asked).content.decode()
    assert "2 tenants would run fewer tasks" in page
    after = {"drain": "draining", "retire": "retired"}[action]
    assert f"high-cpu: <del>active</del> → <ins>{after}</ins>" in page
    assert re.search(">10</data> → <data value=", page)
    pages.post(url, {**asked, "confirmed": "yes", "reason": " "})
    assert Server.objects.get(pk=server.pk).state == "active"
    pages.post(url, {**asked, "confirmed": "yes", "reason": "old"})
    assert (
        Server.objects.get(pk=server.pk).state == {"drain": "draining", "retire": "retired"}[action]
    )


def test_a_webhook_is_disabled_enabled_tested_and_a_delivery_sent_again(pages):
    """By the services of the API, with the reason in the audit."""
    hook, first = Webhook.objects.get(), Delivery.objects.get()

    def act(model, action, row):
        form = {"action": action, "_selected_action": [str(row.pk)], "reason": "the receiver moved"}
        page = pages.post(
            reverse(f"admin:webhooks_{model}_changelist"), form, follow=True
        ).content.decode()
        row.refresh_from_db()
        return page

    assert "1 webhook disabled" in act("webhook", "disable", hook)
    first.refresh_from_db()
    assert (hook.disabled_because, first.state) == ("requested", "cancelled")
    assert "enable it first" in act("delivery", "resend", first)
    assert first.state == "cancelled"
    act("webhook", "enable", hook)
    assert (hook.disabled_at, hook.version) == (None, 3)
    act("delivery", "resend", first)
    assert first.state == "pending"
    act("webhook", "test", hook)
    assert Delivery.objects.count() == 2
    reasons = AuditEntry.objects.filter(object_type="webhook").values_list("action", "reason")
    told = [action for action, reason in reasons if reason == "the receiver moved"]
    assert sorted(told) == ["webhook.resend", "webhook.update", "webhook.update"]
