"""Pages of the admin have durations in words, exact numbers and all that Django's forms have."""

import math
import re

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db.models.signals import post_init
from django.urls import reverse

from allocator_service.allocation.models import Allocation, Run
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload
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
