"""Operators of some pools: what belongs to others is absent for them, as what does not exist."""

import re
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from allocator_service.allocation.admin.tabs import all_tabs
from allocator_service.allocation.models import Run
from allocator_service.billing.admin.statements import months_section
from allocator_service.billing.models import PricePlan, Statement
from allocator_service.core.admin import AuditedAdmin
from allocator_service.core.models import AuditEntry, PoolLimit
from allocator_service.core.roles import OPERATORS
from allocator_service.core.visible import VisiblePools, visible_pools
from allocator_service.enforcement.models import Agent
from allocator_service.ledger.models import Entry
from allocator_service.pools.models import Pool, Server
from allocator_service.pools.operators import pool_limit_lift, pool_limit_set
from allocator_service.tenants.models import Person, Tenant
from allocator_service.tenants.people import Identity, RoleGroups, person_admit
from allocator_service.webhooks.models import Webhook
from tests import factories
from tests.integration.conftest import NOON
from tests.integration.test_admin_access import routes, writes
from tests.integration.test_admin_pages import OURS, pages

__all__ = ["pages"]  # fixtures of other modules

pytestmark = pytest.mark.django_db(transaction=True)

REGISTERED = {
    model: registered
    for model, registered in admin.site._registry.items()
    if isinstance(registered, AuditedAdmin)
}
THEIRS = list(REGISTERED)
WHOLE = {model for model, registered in REGISTERED.items() if registered.pool_path is None}
NOBODYS = "01a1fa35-2b84-7418-8537-e4019453fdf6"
# What is in pool lab: its slug, its tenants and servers, in whatever a page may say.
OF_LAB = re.compile(
    r"\blab\b|\bu[12]\b|high-(?:memory|cpu)|analysis|simulation|slurm-lab|outage|ml-group"
)


@pytest.fixture
def some(pages, client, fig2):
    """Two pools: lab, with all there is, and quiet; signs in an operator who is limited to one."""
    call_command("migrate", verbosity=0)
    quiet, own = factories.pool("quiet"), factories.tenant("zoo")
    factories.server(quiet, "mine", 1, 1, own)
    users = get_user_model().objects

    def sign_in(*pools):
        user = users.create_user("limited", password="x", is_staff=True)
        user.groups.set(Group.objects.filter(name=OPERATORS))
        pool_limit_set(user=user, pools=pools, now=NOON)
        client.force_login(user)
        return client

    return SimpleNamespace(lab=fig2, quiet=quiet, own=own, sign_in=sign_in)


def list_of(model):
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def text_of(answer):
    return answer.content.decode()


def test_it_is_known_which_pool_each_object_belongs_to(db):
    """Every model's way to its pool is one; those that have none are of the whole installation."""
    assert {model._meta.model_name for model in WHOLE} == {
        "apikey", "person", "groupgrant", "poollimit",
    }  # fmt: skip
    for model in set(THEIRS) - WHOLE:
        path = REGISTERED[model].pool_path
        assert list(model._default_manager.filter(**{f"{path}__in": ["lab"]})) == [], model
    untold = {each for each in OURS if each not in THEIRS}
    assert {model._meta.app_label for model in untold} == {"auth"}


def test_of_another_pool_no_page_is_there_and_nothing_is_written(some):
    browser = some.sign_in(some.quiet)
    wrong = []
    for address in routes():
        with CaptureQueriesContext(connection) as asked:
            answers = [browser.get(address), browser.post(address, {"post": "yes", "apply": "yes"})]
        wrong += [(address, written) for written in writes(asked.captured_queries)]
        for answer in answers:
            assert answer.status_code in (200, 302, 403, 404, 405), (address, answer.status_code)
            if answer.status_code == 200:
                assert "/change/" not in address, address
                found = OF_LAB.search(re.sub("<script.*?</script>", "", text_of(answer)))
                assert found is None, (address, found)
    assert wrong == []


def test_lists_searches_and_the_first_page_name_nothing_of_another_pool(some):
    browser = some.sign_in(some.quiet)
    for model in set(THEIRS) - WHOLE:
        for query in ("", "?q=u1", "?q=lab", f"?pool__id__exact={some.lab.pk}", "?pool=lab"):
            answer = browser.get(list_of(model) + query, follow=True)
            assert answer.status_code == 200, (model, query)
            said = re.sub(r'value="[^"]*"|href="[^"]*"|q=\w+', "", text_of(answer))
            assert not OF_LAB.search(said), (model, query, OF_LAB.search(said))
    assert "quiet" in text_of(browser.get("/admin/pools/pool/"))
    assert "mine" in text_of(browser.get("/admin/pools/server/"))
    index = text_of(browser.get("/admin/"))
    assert "quiet" in index
    assert not OF_LAB.search(index)


def test_months_to_close_are_told_to_those_who_see_the_pool(some):
    later = NOON + timedelta(days=400)
    told = months_section(later, VisiblePools(frozenset({"lab"}))).notices
    assert [OF_LAB.search(notice.text) is not None for notice in told] == [True]
    assert months_section(later, VisiblePools(frozenset({"quiet"}))).notices == []


def test_choices_that_are_searched_for_are_those_of_the_pool(some):
    browser = some.sign_in(some.quiet)
    for field, expected in {
        "pools.server.pool": ["quiet"],
        "pools.server.contributed_by": ["zoo"],
        "billing.creditnote.tenant": ["zoo"],
        "workloads.workload.pool": ["quiet"],
    }.items():
        app, model, name = field.split(".")
        query = f"?app_label={app}&model_name={model}&field_name={name}&term="
        found = browser.get(f"/admin/autocomplete/{query}").json()
        assert [each["text"] for each in found["results"]] == expected, field


def test_what_is_foreign_answers_as_what_does_not_exist(some):
    browser = some.sign_in(some.quiet)
    server, run = some.lab.servers.first(), Run.objects.first()
    for foreign, unknown in (
        (f"/admin/pools/server/{server.pk}/change/", f"/admin/pools/server/{NOBODYS}/change/"),
        (f"/admin/pools/server/{server.pk}/history/", f"/admin/pools/server/{NOBODYS}/history/"),
        *[
            (f"/admin/pools/pool/{some.lab.pk}/{tab.route}", f"/admin/pools/pool/999999/{tab.route}")
            for tab in all_tabs()
        ],
        (f"/admin/billing/closing/open/{some.lab.pk}/", "/admin/billing/closing/open/999999/"),
        (f"/admin/allocation/run/{run.pk}/proof/", f"/admin/allocation/run/{NOBODYS}/proof/"),
        (f"/admin/allocation/run/{run.pk}/placements/",
         f"/admin/allocation/run/{NOBODYS}/placements/"),
        (f"/admin/allocation/run/{run.pk}/explanation/u1/",
         f"/admin/allocation/run/{NOBODYS}/explanation/u1/"),
    ):  # fmt: skip
        answers = [browser.get(address) for address in (foreign, unknown)]
        assert answers[0].status_code == answers[1].status_code
        assert answers[0].status_code in (302, 404), foreign
        assert answers[0].headers.get("Location") == answers[1].headers.get("Location")


def test_actions_on_another_pools_objects_do_nothing(some):
    browser = some.sign_in(some.quiet)
    request = RequestFactory().get("/admin/")
    request.user = get_user_model().objects.get(is_superuser=True)
    wrong = []
    for model in THEIRS:
        own = {Pool: {"slug": "quiet"}, Server: {"name": "mine"}, Tenant: {"slug": "zoo"}}
        others = (
            model._default_manager.exclude(**own[model]) if model in own else model._default_manager
        )
        foreign = list(others.values_list("pk", flat=True)[:3])
        for action in admin.site._registry[model].get_actions(request):
            sent = {
                "action": action, "_selected_action": foreign, "confirmed": "yes", "reason": "because"
            }  # fmt: skip
            with CaptureQueriesContext(connection) as asked:
                answer = browser.post(list_of(model), sent)
            assert answer.status_code in (200, 302, 403), (model, action)
            wrong += [(model, action, written) for written in writes(asked.captured_queries)]
    assert wrong == []


def test_forms_take_no_other_pool(some):
    browser = some.sign_in(some.quiet)
    form = {"pool": some.lab.pk, "name": "sneaked", "capacity": "cpu=1", "labels": "", "count": 1}
    answer = browser.post("/admin/pools/server/add/", form)
    assert "Select a valid choice" in text_of(answer)
    browser.post("/admin/pools/server/add/", {**form, "pool": some.quiet.pk})
    assert Server.objects.get(name="sneaked").pool == some.quiet
    page = text_of(browser.get("/admin/pools/server/import/"))
    assert re.findall(r'<option value="(\w+)"[^>]*>\1<', page.partition("id_format")[0]) == [
        "quiet"
    ]
    answer = browser.post("/admin/pools/server/import/", {"pool": "lab", "format": "csv"})
    assert "Select a valid choice" in text_of(answer)


def test_what_concerns_the_whole_installation_is_not_theirs(some):
    browser = some.sign_in(some.lab, some.quiet)
    for model in WHOLE:
        assert browser.get(list_of(model)).status_code == 403, model
    for address in ("/admin/pools/pool/add/", "/admin/tenants/tenant/add/",
                    "/admin/tenants/tenant/import/", "/admin/auth/user/"):  # fmt: skip
        assert browser.get(address).status_code == 403, address
        assert browser.post(address, {"slug": "new", "name": "New"}).status_code == 403, address
    limit = PoolLimit.objects.get()
    assert browser.get(f"/admin/core/poollimit/{limit.pk}/change/").status_code == 403


def test_in_their_own_pools_they_do_what_operators_do(some):
    browser = some.sign_in(some.lab)
    for model in (Pool, Server, Run, Entry, Statement, Webhook, Agent, PricePlan):
        row = model._default_manager.exclude(
            **({"slug": "quiet"} if model is Pool else {"name": "mine"} if model is Server else {})
        ).first()
        change = list_of(model) + f"{row.pk}/change/"
        assert browser.get(change).status_code == 200, change
    for page in (f"pools/pool/{some.lab.pk}/overview", f"billing/closing/open/{some.lab.pk}"):
        assert browser.get(f"/admin/{page}/").status_code == 200, page
    server = some.lab.servers.get(name="high-cpu")
    sent = {"action": "drain", "_selected_action": [server.pk], "confirmed": "yes", "reason": "old"}
    assert browser.post("/admin/pools/server/", sent).status_code == 302
    server.refresh_from_db()
    assert server.state == "draining"


def test_months_of_other_pools_are_no_choice_of_a_filter(some, client):
    def months(model):
        page = text_of(client.get(f"/admin/billing/{model}/"))
        return re.findall(r"month=(\d{4}-\d\d-\d\d)", page)

    some.sign_in(some.quiet)
    assert (months("closing"), months("statement")) == ([], [])
    client.force_login(get_user_model().objects.get(is_superuser=True))
    assert months("closing") == months("statement") != []


def test_the_page_of_a_tenant_leads_to_its_parts_of_visible_pools(some, client):
    tenant = Tenant.objects.get(slug="u1")
    factories.member(some.quiet, tenant, None)
    path = reverse("admin:tenants_tenant_change", args=[tenant.pk])

    def links():
        return re.findall(
            r'href="(/admin/[a-z]+/(\w+)/\?tenant__id__exact=[^"]+)"', text_of(client.get(path))
        )

    some.sign_in(some.quiet)
    assert {f"pool__id__exact={some.quiet.pk}" in link for link, _ in links()} == {True}
    client.force_login(get_user_model().objects.get(is_superuser=True))
    found = links()
    assert sorted(kind for _, kind in found) == [
        "entry",
        "entry",
        "statement",
        "statement",
        "workload",
        "workload",
    ]
    for link, kind in found:
        listed = client.get(link.replace("&amp;", "&")).context["cl"]
        whose = {row.tenant_id for row in listed.queryset}
        assert (kind, whose <= {tenant.pk}) == (kind, True)
    (lab,) = [
        link
        for link, kind in found
        if kind == "workload" and f"pool__id__exact={some.lab.pk}" in link
    ]
    assert client.get(lab.replace("&amp;", "&")).context["cl"].result_count > 0


def test_who_is_limited_to_no_pool_sees_nothing(some):
    browser = some.sign_in()
    for model in set(THEIRS) - WHOLE:
        rows = browser.get(list_of(model)).context["cl"].queryset.count()
        assert rows == 0, model


def test_a_superuser_limits_and_lifts_in_the_admin(some, client):
    browser = some.sign_in(some.quiet)
    user = get_user_model().objects.get(username="limited")
    client.force_login(get_user_model().objects.get(is_superuser=True))
    page = text_of(client.get(f"/admin/core/poollimit/{user.pk}/change/"))
    assert '<option value="quiet" selected>' in page
    client.post(f"/admin/core/poollimit/{user.pk}/change/", {"pools": ["lab"], "reason": "moved"})
    assert visible_pools(get_user_model().objects.get(pk=user.pk)).slugs == {"lab"}
    done = AuditEntry.objects.filter(action="pool_limit.set").latest("id")
    assert (done.before, done.after, done.reason) == (
        {"pools": ["quiet"]},
        {"pools": ["lab"]},
        "moved",
    )
    sent = {"action": "lift", "_selected_action": [user.pk], "reason": "back"}
    client.post("/admin/core/poollimit/", sent)
    assert not PoolLimit.objects.exists()
    client.force_login(user)
    assert OF_LAB.search(text_of(browser.get("/admin/pools/server/")))


def admit(*groups):
    identity = Identity("https://id.example", "grace", "Grace", groups)
    named = RoleGroups("operators", "auditors", "pool-")
    return person_admit(identity=identity, role_groups=named, now=NOON)


def seen_by(person):
    return visible_pools(get_user_model().objects.get(pk=person.user_id)).slugs


def test_groups_of_the_provider_make_operators_of_pools(some):
    assert admit("pool-", "pool-A", "pool-a b", "apool-lab") is None
    person = admit("pool-lab", "pool-nowhere", "others")
    assert [group.name for group in person.user.groups.all()] == [OPERATORS]
    assert seen_by(person) == {"lab", "nowhere"}
    assert seen_by(admit("pool-lab", "operators")) is None
    assert seen_by(admit("pool-quiet", "auditors")) == {"quiet"}
    assert seen_by(admit("auditors")) is None
    admit("pool-lab")
    assert admit() is None
    person = Person.objects.get(subject="grace")
    assert (person.user.is_staff, person.user.groups.count()) == (False, 0)
    pools = AuditEntry.objects.filter(object_type="person", action="person.register").latest("id")
    assert pools.after["pools"] == ["lab", "nowhere"]


def test_of_people_who_sign_in_by_the_provider_the_groups_decide(some):
    person = admit("pool-lab")
    for attempt in (
        lambda: pool_limit_set(user=person.user, pools=[some.quiet], now=NOON),
        lambda: pool_limit_lift(limit=PoolLimit.objects.get(user=person.user), now=NOON),
    ):
        with pytest.raises(Exception, match="provider"):
            attempt()
    assert seen_by(person) == {"lab"}
