"""Addresses that no link leads to: each is answered with 400, 404 or a redirect, and none with 500."""

import pytest
from django.contrib import admin
from django.urls import reverse

from allocator_service.pools.models import Server
from tests.integration.test_admin_pages import OURS, pages

__all__ = ["pages"]  # fixtures of other modules

pytestmark = pytest.mark.django_db(transaction=True)

HUGE = "9" * 30
QUERIES = [
    "pool=NaN", f"pool__id__exact={HUGE}", "q=%00", "q=%ED%A0%80", "p=NaN", "action__exact=%00",
    "id=NaN", "%00=1", "nothing=1",
]  # fmt: skip


def list_of(model):
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def test_no_query_of_a_list_and_no_key_is_an_error_of_ours(pages):
    pages.raise_request_exception = False
    for model in OURS:
        for query in QUERIES:
            answer = pages.get(f"{list_of(model)}?{query}")
            expected = {400} if "%00" in query else {200, 302, 400}
            assert answer.status_code in expected, (model, query, answer.status_code)
        for key in ("%00", "NaN", HUGE):
            answer = pages.get(f"{list_of(model)}{key}/change/")
            assert answer.status_code in (302, 400, 403, 404), (model, key)


def test_rows_that_cannot_be_are_not_acted_on(pages):
    pages.raise_request_exception = False
    for model in OURS:
        actions = [*admin.site._registry[model].actions, "delete_selected"]
        for action in actions:
            name = action if isinstance(action, str) else action.__name__
            for key in ("NaN", "ä\ud800"):
                row = key.encode("utf-8", "surrogatepass")
                sent = {"action": name, "_selected_action": row, "reason": "x", "confirmed": "yes"}
                answer = pages.post(list_of(model), sent)
                assert answer.status_code in (200, 302, 400, 403), (model, name, key)
    assert set(Server.objects.values_list("state", flat=True)) == {"active"}


@pytest.mark.parametrize(
    "address",
    [
        "autocomplete/?app_label=pools&model_name=server&field_name=pool&term=%00",
        "autocomplete/?app_label=%00&model_name=server&field_name=pool&term=",
        "pools/server/add/?pool=%00",
        "pools/server/add/?pool=NaN",
        "pools/server/add/?contributed_by=NaN",
        "pools/pool/1/overview/?q=%00",
    ],
)
def test_what_cannot_be_read_is_a_page_that_says_so(client, django_user_model, address):
    client.force_login(django_user_model.objects.create_superuser("root"))
    answer = client.get(f"/admin/{address}")
    assert answer.status_code == 400
    page = answer.content.decode()
    assert "<h1>This request cannot be read</h1>" in page
    assert 'href="/admin/"' in page


def test_other_odd_addresses_lead_nowhere(client, django_user_model):
    client.force_login(django_user_model.objects.create_superuser("root"))
    for address in (
        "autocomplete/?app_label=pools&model_name=server&field_name=pool&term=&page=NaN",
        f"autocomplete/?app_label=pools&model_name=server&field_name=pool&term=&page={HUGE}",
        "autocomplete/?app_label=pools&model_name=server&field_name=nothing&term=x",
        "autocomplete/?term=x", "r/1/NaN/", f"pools/pool/{HUGE}/overview/",
        f"billing/closing/open/{HUGE}/", f"billing/closing/open/1/{HUGE}/", "%00/",
    ):  # fmt: skip
        assert client.get(f"/admin/{address}").status_code in (400, 403, 404), address
