"""An import is in the history of each object that it added or changed, with who and why."""

import re

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from allocator_service.pools.models import Group, Membership, Server
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.models import Workload
from tests.integration.test_admin_imports import (
    GROUPS,
    SERVERS,
    TENANTS,
    WORKLOADS,
    confirmed,
    sent,
)

pytestmark = pytest.mark.django_db(transaction=True)
CSV = {
    SERVERS: [
        "name,contributed_by,capacity.cpu,capacity.memory,count\nnode,u2,4,16,3\n",
        "name,contributed_by,capacity.cpu,capacity.memory,count\nhigh-cpu,u2,13,4,\nother,u3,1,1,\n",
    ],
    TENANTS: ["slug,name\nu1,Renamed\nalpha,Alpha\nbeta,Beta\n"],
    WORKLOADS: [
        "tenant,name,demand.cpu,tasks\nu1,train,2,8\nu2,late,1,1\n",
        "tenant,name,demand.cpu,tasks\nu1,train,2,9\n",
    ],
    GROUPS: [
        "kind,slug,parent,weight\ngroup,a,,2\ngroup,b,,1\ngroup,c,a,1\nmember,u1,a,2\nmember,u2,b,1\n",
        "kind,slug,parent,weight\ngroup,a,,3\ngroup,c,b,1\nmember,u1,b,2\n",
    ],
}


@pytest.fixture
def operator(client):
    client.force_login(get_user_model().objects.create_superuser("olga"))
    return client


def rows_of(client, row):
    """The lines of an object's history: the action, the reason, what differs."""
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}_history"
    page = client.get(reverse(name, args=[row.pk])).content.decode()
    page = re.sub('<span class="cell-label">.*?</span>', "", page)
    lines = re.findall("<tr><td><time.*?</tr>", page, re.DOTALL)
    return [" ".join(re.sub("<[^>]+>", " ", line).split()) for line in lines]


@pytest.mark.parametrize("url", CSV, ids=["servers", "tenants", "workloads", "groups"])
def test_an_import_is_in_the_history_of_each_object(operator, fig2, tenant, url):
    models = (Server, Tenant, Workload, Group, Membership)
    for number, csv in enumerate(CSV[url]):
        before = {model: dict(model.objects.values_list("pk", "version")) for model in models}
        page = sent(operator, url, csv, pool="lab", register_tenants="on")
        done = confirmed(operator, url, page, reason=f"file {number}")
        assert not [each for each in done.context["messages"] if each.level_tag == "error"]
        touched = [
            row
            for model in models
            for row in model.objects.all()
            if before[model].get(row.pk) != row.version
        ]
        assert touched
        for row in touched:
            newest = rows_of(operator, row)[:1]
            assert newest, (url, row, "no history")
            assert f"file {number}" in newest[0], (url, row, newest)
            assert "user olga" in newest[0]
