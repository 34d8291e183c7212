"""Pages of the admin have durations in words, exact numbers and all that Django's forms have."""

import math
import re

import pytest
from django.contrib import admin
from django.contrib.admin.utils import get_fields_from_path
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db.models.signals import post_init
from django.urls import reverse
from django.utils.text import capfirst

from allocator_service.allocation.models import Allocation, Run
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.core.display import percent_text
from allocator_service.core.models import AuditEntry
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload
from allocator_service.workloads.reason_texts import OPERATOR, reason_text
from tests.integration.conftest import NOON

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def operator(client):
    client.force_login(get_user_model().objects.create_superuser("olga"))
    return client


def read_only_values(client, row):
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
    page = client.get(reverse(name, args=[row.pk])).content.decode()
    return re.findall(r'<div class="readonly">(.*?)</div>', page, re.DOTALL)


def test_durations_of_pools_and_workloads_are_read_in_words(client, fig2):
    user = get_user_model().objects.create_user("auditor", is_staff=True)
    codes = ("view_pool", "view_workload")
    user.user_permissions.set(Permission.objects.filter(codename__in=codes))
    client.force_login(user)
    durations = {
        "window_length": ("P14D", "14 days"),
        "window_half_life": ("P3D", "3 days"),
        "decision_interval": ("PT2M", "2 minutes"),
        "cluster_grace": ("PT15M", "15 minutes"),
        "minimum_run": ("PT45M", "45 minutes"),
        "notice": ("PT1H", "an hour"),
    }
    Pool.objects.update(**{name: stored for name, (stored, _) in durations.items()})
    Workload.objects.update(minimum_run="PT30M")
    values = read_only_values(client, fig2)
    assert [text for _, text in durations.values() if text not in values] == []
    assert "30 minutes" in read_only_values(client, Workload.objects.first())


def test_a_page_has_reasons_and_changes_in_words(operator, fig2):
    recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    row = Allocation.objects.filter(tenant__slug="u1").first()
    values = read_only_values(operator, row)
    assert reason_text(row.limited_by, OPERATOR) in values
    assert row.limited_by not in values
    assert any(re.fullmatch("[0-9.]+\xa0cores?, [0-9.]+\xa0GiB memory", text) for text in values)
    entry = AuditEntry.objects.filter(action="server.contribute").first()
    values = read_only_values(operator, entry)
    assert any("<ins>" in text for text in values)
    assert not any("{" in text or "&quot;" in text for text in values)


def test_instants_of_forms_name_their_clock(operator):
    for name in ("billing_priceplan_add", "billing_budget_add", "tenants_apikey_add"):
        page = operator.get(reverse(f"admin:{name}")).content.decode()
        assert page.count("In UTC.") == page.count('class="vDateField"'), name


@pytest.fixture
def odd_floats():
    """Allocations with floats that a published decision, which nothing changes, does not have."""
    odd = {
        "dominant_share": 0.99996, "weighted_share": math.nan, "tenant_share": 1e-7, "tasks": 1e300,
    }  # fmt: skip

    def change(instance, **signal):
        vars(instance).update(odd)

    post_init.connect(change, sender=Allocation)
    yield
    post_init.disconnect(change, sender=Allocation)


def test_a_page_has_the_exact_value_of_a_float(operator, fig2, odd_floats):
    recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    row = Allocation.objects.first()
    values = read_only_values(operator, row)
    assert {"0.99996", "nan", "0.0000001", "1e+300"} <= set(values)
    listed = operator.get(reverse("admin:allocation_allocation_changelist"))
    assert listed.status_code == 200
    assert ">nan</td>" in listed.content.decode()


def test_a_list_shows_a_tiny_share_as_the_pages_do(rf):
    columns = admin.site._registry[Allocation].get_list_display(rf.get("/"))
    share = next(each for each in columns if getattr(each, "__name__", "") == "dominant_share")
    shown = share(Allocation(dominant_share=0.00004))
    assert shown == f'<data value="4e-05">{percent_text(0.00004)}</data>'
    assert percent_text(0.00004) == "0.004\N{NO-BREAK SPACE}%"
    assert share(Allocation(dominant_share=None)) is None


TITLES = {
    "allocation.run": ["Status", "Pool"],
    "auth.user": ["Staff status", "Superuser status", "Active", "Groups"],
    "axes.accessattempt": ["Time"],
    "axes.accessfailurelog": ["Time", "Locked out"],
    "axes.accesslog": ["Time"],
    "backtests.backtest": ["Status"],
    "billing.budget": ["Pool", "When it is spent"],
    "billing.closing": ["Pool", "Month"],
    "billing.creditnote": ["Pool"],
    "billing.posting": ["Kind", "Pool"],
    "billing.priceplan": ["State", "Pool"],
    "billing.rerating": ["Pool"],
    "billing.statement": ["Pool", "Month", "Tenant"],
    "billing.unitgrant": ["Pool"],
    "core.auditentry": ["Kind of object", "Action", "Time"],
    "core.event": ["Kind"],
    "ledger.usagesource": ["Pool"],
    "enforcement.agent": ["Pool", "Scheduler"],
    "enforcement.blockage": ["Pool"],
    "enforcement.drift": ["Pool"],
    "ledger.block": ["Pool"],
    "ledger.entry": ["Kind", "Pool"],
    "pools.group": ["Pool", "Current or retired"],
    "pools.membership": ["Pool", "Current or former"],
    "pools.pool": ["Policy", "Source of weights", "Current or retired"],
    "pools.server": ["State", "Pool"],
    "tenants.apikey": ["Scope"],
    "webhooks.delivery": ["State", "Event"],
    "webhooks.webhook": ["Why disabled", "Subscriber", "Tenant", "Pool"],
    "workloads.workload": ["State", "Pool", "Can a task run now?"],
}


def test_filters_have_titles_for_people():
    found = {}
    for model, registered in admin.site._registry.items():
        titles = getattr(registered, "filter_titles", {})
        filters = [each if isinstance(each, str) else each[0] for each in registered.list_filter]
        found[model._meta.label_lower] = [
            capfirst(titles.get(path, get_fields_from_path(model, path)[-1].verbose_name))
            for path in filters
        ]
    assert {name: titles for name, titles in found.items() if titles} == TITLES


def test_filters_have_names_for_values(operator, fig2):
    workloads = operator.get(reverse("admin:workloads_workload_changelist")).content.decode()
    assert "Can a task run now?" in workloads
    assert "By unsatisfiable" not in workloads
    pools = operator.get(reverse("admin:pools_pool_changelist")).content.decode()
    assert 'policy_name=drfh">Fair shares on real servers (DRFH)</a>' in pools
    audit = operator.get(reverse("admin:core_auditentry_changelist")).content.decode()
    assert 'object_type=pool">Pool</a>' in audit
    budgets = operator.get(reverse("admin:billing_budget_changelist")).content.decode()
    assert ">It is served after everybody else</a>" in budgets


def test_a_form_fills_fields_from_others(operator, monkeypatch):
    monkeypatch.setattr(admin.site._registry[Tenant], "prepopulated_fields", {"slug": ("name",)})
    page = operator.get(reverse("admin:tenants_tenant_add"))
    (filled,) = page.context["adminform"].prepopulated_fields
    assert filled["field"].name == "slug"
    assert "#id_name" in page.content.decode()


def test_a_failed_run_reads_unlike_the_succeeded_run_of_its_generation():
    pool = Pool(slug="lab")
    names = [str(Run(pool=pool, generation=1_000, status=each)) for each in ("succeeded", "failed")]
    assert names == ["lab, generation 1,000", "lab, generation 1,000, failed"]
    assert str(Run(pool=pool, status="pending")) == "lab, pending"
