"""A user of the admin keeps filters of lists by name, for itself alone."""

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.urls import reverse

from allocator_service.core.models import SavedFilter
from allocator_service.core.saved_filters import MAX_FILTERS
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)
SERVERS = "/admin/pools/server/"
DRAINING = "pool__id__exact={}&state__exact=draining"


@pytest.fixture
def operator(client):
    client.force_login(get_user_model().objects.create_superuser("olga"))
    return client


def saved(client, name, query, url=SERVERS):
    return client.post(f"{url}filters/", {"name": name, "query": query}, follow=True)


def texts(page):
    return [str(message) for message in page.context["messages"]]


def links(page):
    return [(each.name, url, current) for each, url, current in page.context["saved_filters"]]


def test_a_filter_is_saved_seen_as_a_link_and_deleted(operator, fig2):
    query = DRAINING.format(fig2.pk)
    page = operator.get(f"{SERVERS}?{query}&p=1&o=2&q=")
    assert page.context["filter_query"] == f"o=2&{query}"
    assert "Save this filter as" in page.content.decode()
    assert "Save this filter as" not in operator.get(SERVERS).content.decode()

    page = saved(operator, "Broken <b>", page.context["filter_query"])
    assert texts(page) == ["Filter “Broken <b>” saved."]
    (link,) = links(page)
    assert link == ("Broken <b>", f"{SERVERS}?o=2&{query}", True)
    assert "Broken &lt;b&gt;</a>" in page.content.decode()
    assert links(operator.get(SERVERS))[0][2] is False

    pk = SavedFilter.objects.get().pk
    page = operator.post(f"{SERVERS}filters/{pk}/delete/", follow=True)
    assert texts(page) == ["Filter “Broken <b>” deleted."]
    assert links(page) == []


def test_the_link_shows_the_rows_of_the_filter(operator, fig2):
    other = factories.pool("other")
    factories.server(other, "elsewhere", 1, 1, None)
    page = saved(operator, "Other", f"pool__id__exact={other.pk}")
    (link,) = links(page)
    assert [row.name for row in operator.get(link[1]).context["cl"].result_list] == ["elsewhere"]


def test_a_name_in_use_is_replaced_in_its_own_list(operator, fig2):
    saved(operator, "Mine", "state__exact=active")
    saved(operator, "Mine", "state__exact=draining")
    saved(operator, "Mine", "q=x", url="/admin/tenants/tenant/")
    assert sorted(SavedFilter.objects.values_list("list_name", "query")) == [
        ("pools.server", "state__exact=draining"), ("tenants.tenant", "q=x"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("", "q=x"), (" ", "q=x"), ("x" * 81, "q=x"), ("a\nb", "q=x"), ("a\u202eb", "q=x"),
        ("all", ""), ("page", "p=3"), ("long", "q=" + "x" * 2_000),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused(operator, fig2, name, query):
    page = saved(operator, name, query)
    assert texts(page)[0].startswith("Expected")
    assert not SavedFilter.objects.exists()


def test_a_list_has_a_limited_number_of_filters(operator, fig2):
    for number in range(MAX_FILTERS):
        saved(operator, f"Filter {number}", f"q={number}")
    page = saved(operator, "One more", "q=more")
    assert texts(page) == [f"A list has at most {MAX_FILTERS} saved filters: delete one first."]
    saved(operator, "Filter 0", "q=again")  # a name in use needs no further place
    assert SavedFilter.objects.get(name="Filter 0").query == "q=again"
    assert SavedFilter.objects.count() == MAX_FILTERS


def test_nobody_sees_or_deletes_the_filter_of_another_user(operator, client, fig2):
    saved(operator, "Of olga", "state__exact=active")
    pk = SavedFilter.objects.get().pk
    client.force_login(get_user_model().objects.create_superuser("otto"))
    page = client.get(SERVERS)
    assert links(page) == []
    assert "Of olga" not in page.content.decode()
    assert client.post(f"{SERVERS}filters/{pk}/delete/").status_code == 404
    saved(client, "Of olga", "q=mine")
    assert SavedFilter.objects.get(pk=pk).query == "state__exact=active"
    assert SavedFilter.objects.count() == 2


def test_a_filter_of_one_list_is_not_deleted_from_another(operator, fig2):
    saved(operator, "Mine", "state__exact=active")
    pk = SavedFilter.objects.get().pk
    assert operator.post(f"/admin/tenants/tenant/filters/{pk}/delete/").status_code == 404
    assert SavedFilter.objects.exists()


def test_only_those_who_see_a_list_save_its_filters_by_post(operator, client, fig2):
    assert operator.get(f"{SERVERS}filters/").status_code == 405
    user = get_user_model().objects.create_user("vera", is_staff=True)
    client.force_login(user)
    assert client.post(f"{SERVERS}filters/", {"name": "a", "query": "q=x"}).status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="view_server"))
    assert client.post(f"{SERVERS}filters/", {"name": "a", "query": "q=x"}).status_code == 302
    assert SavedFilter.objects.get().user == user
    user.delete()
    assert not SavedFilter.objects.exists()


def test_a_query_that_leads_elsewhere_stays_in_the_list(operator, fig2):
    page = operator.post(f"{SERVERS}filters/", {"name": "a", "query": "q=//evil.example/&x=#y"})
    assert page.headers["Location"].startswith(reverse("admin:pools_server_changelist") + "?q=")
