"""One search over everything in the admin: what the user may see, with links, in a few statements."""

import re

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from allocator_service.billing.models import Statement
from allocator_service.pools.models import Pool, Server
from allocator_service.tenants.services import TenantDraft, tenants_create
from tests.integration.conftest import NOON
from tests.integration.test_admin_of_some_pools import OF_LAB, some
from tests.integration.test_admin_pages import pages

__all__ = ["pages", "some"]  # fixtures of other modules

pytestmark = pytest.mark.django_db(transaction=True)
SEARCH = "/admin/search/"


def sections(page):
    """Title to the names that were found."""
    return {title: [each.name for each in found] for title, found, _ in page.context["sections"]}


def test_each_kind_of_object_is_found_with_a_link_to_its_page(pages, fig2):
    found = sections(pages.get(SEARCH, {"q": "lab"}))
    assert list(found) == [
        "Pools",
        "Memberships",
        "Servers",
        "Workloads",
        "Statements",
        "Price plans",
    ]
    assert found["Pools"] == ["lab"]
    assert set(found["Servers"]) == {"high-cpu", "high-memory"}
    assert sections(pages.get(SEARCH, {"q": "U1"}))["Tenants"] == ["u1"]
    assert sections(pages.get(SEARCH, {"q": "ml-gr"})) == {"Groups": ["ml-group"]}
    page = pages.get(SEARCH, {"q": "high-c"})
    server = Server.objects.get(name="high-cpu")
    assert (
        f'<a href="/admin/pools/server/{server.pk}/change/">high-cpu</a>' in page.content.decode()
    )
    page = pages.get(SEARCH, {"q": "lab"}).content.decode()
    assert reverse("admin:pools_pool_overview", args=[Pool.objects.get().pk]) in page
    assert reverse("admin:billing_statement_change", args=[Statement.objects.first().pk]) in page
    for link in re.findall('<li><a href="(/admin/[^"]+)">', page):
        assert pages.get(link).status_code == 200


def test_what_is_not_found_is_stated_and_markup_is_text(pages):
    page = pages.get(SEARCH, {"q": "<b>no"})
    assert sections(page) == {}
    assert "Nothing that you may see has “&lt;b&gt;no” in its name." in page.content.decode()
    assert "Enter a part of a name" in pages.get(SEARCH).content.decode()
    assert "Enter a part of a name" in pages.get(SEARCH, {"q": "  "}).content.decode()
    assert pages.get(SEARCH, {"q": "\0"}).status_code == 400
    assert pages.get(SEARCH, {"q": "x" * 5000}).status_code == 200


def test_ten_of_a_kind_are_shown_with_a_link_to_all_in_as_many_statements(pages):
    pages.get(SEARCH, {"q": "lab"})
    with CaptureQueriesContext(connection) as of_few:
        pages.get(SEARCH, {"q": "t0"})
    tenants_create(drafts=[TenantDraft(f"t0{n:02d}", "T") for n in range(30)], now=NOON)
    with CaptureQueriesContext(connection) as of_many:
        page = pages.get(SEARCH, {"q": "t0"})
    assert len(sections(page)["Tenants"]) == 10
    assert "/admin/tenants/tenant/?q=t0" in page.content.decode()
    assert len(of_many) == len(of_few) <= 20


def test_a_search_finds_nothing_of_models_without_permission(pages, client):
    user = get_user_model().objects.create_user("half", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_server"))
    client.force_login(user)
    assert list(sections(client.get(SEARCH, {"q": "lab"}))) == ["Servers"]
    client.logout()
    assert client.get(SEARCH, {"q": "lab"}).status_code == 302


def test_a_search_finds_nothing_of_pools_that_an_operator_does_not_see(some):
    browser = some.sign_in(some.quiet)
    for text in ("lab", "u1", "high", "analysis", "ml", "mine", "quiet"):
        page = browser.get(SEARCH, {"q": text})
        names = [name for found in sections(page).values() for name in found]
        assert not [name for name in names if OF_LAB.search(name)], text
    assert sections(browser.get(SEARCH, {"q": "mine"})) == {"Servers": ["mine"]}


def test_what_is_searched_has_a_list_to_go_on_in():
    searched = admin.site._searched()
    assert len(searched) == 9
    assert all(registered.search_fields for registered in searched)
