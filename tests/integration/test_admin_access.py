"""Who may do what in the admin: auditors see all of it and change nothing; others see nothing."""

import re
from uuid import UUID

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from allocator_service.allocation.admin.tabs import all_tabs
from allocator_service.allocation.models import Run
from allocator_service.core.roles import AUDITORS, NOR_THIS, NOT_THEIRS, OPERATORS
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from tests.integration.test_admin_pages import OURS, pages

__all__ = ["pages"]  # fixtures of other modules

pytestmark = pytest.mark.django_db(transaction=True)

WRITES = re.compile(
    r"^\s*(WITH .*)?(INSERT INTO|UPDATE|DELETE FROM) \"?(?!django_session)", re.DOTALL
)


@pytest.fixture
def people(pages, client):
    """Signs the browser in as somebody of a role, after a migration."""
    call_command("migrate", verbosity=0)
    users = get_user_model().objects

    def sign_in(role):
        user = users.create_user(role, password="x", is_staff=role != "stranger")
        user.groups.set(Group.objects.filter(name=role))
        client.force_login(user)
        return client

    return sign_in


NO_FILTER = UUID(int=0)  # of this id; that of another user is as absent


def routes():
    """Every address of the models' pages, with a row of each for those that are about one."""
    for model in sorted(OURS, key=str):
        row = model._default_manager.first()
        values = {
            "object_id": row and row.pk,
            "pk": row and row.pk,
            "id": row and row.pk,
            "run": Run.objects.first().pk,
            "pool": Pool.objects.first().pk,
            "saved": NO_FILTER,
            "version": "1.4",
            "tenant": "u1" if model._meta.model_name == "run" else Tenant.objects.first().pk,
        }
        for pattern in admin.site._registry[model].get_urls():
            names = pattern.pattern.converters
            if pattern.name is None or (row is None and {"object_id", "pk", "id"} & set(names)):
                continue
            yield reverse(f"admin:{pattern.name}", kwargs={name: values[name] for name in names})


def writes(asked):
    # Cursors on the server, which only read, leave no text.
    return [query["sql"][:200] for query in asked if WRITES.match(query["sql"] or "")]


@pytest.mark.parametrize("role", ["stranger", "nobody"])
def test_who_has_no_role_sees_nothing(people, role):
    browser = people(role)
    for address in routes():
        for answer in (browser.get(address), browser.post(address, {"post": "yes"})):
            assert answer.status_code in (302, 403, 405), address
            if answer.status_code == 302:
                assert answer["Location"].startswith("/admin/login/"), address


def test_auditors_see_what_there_is_and_change_nothing(people):
    browser = people(AUDITORS)
    seen, wrong = 0, []
    for address in routes():
        with CaptureQueriesContext(connection) as asked:
            shown = browser.get(address)
            posted = browser.post(
                address, {"post": "yes", "apply": "yes", "slug": "changed", "_save": "Save"}
            )
        assert shown.status_code in (200, 302, 403, 405), (address, shown.status_code)
        absent = {404} if str(NO_FILTER) in address else set()
        assert posted.status_code in {200, 302, 403, 405} | absent, (address, posted.status_code)
        wrong += [(address, written) for written in writes(asked.captured_queries)]
        seen += shown.status_code == 200
    assert wrong == []
    assert seen > 3 * len(OURS) / 2


def test_auditors_have_no_action_that_changes_anything(people):
    browser = people(AUDITORS)
    request = RequestFactory().get("/admin/")
    request.user = get_user_model().objects.create_superuser("all")
    offered, wrong = 0, []
    for model in sorted(OURS, key=str):
        row = model._default_manager.first()
        address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        for action in admin.site._registry[model].get_actions(request) if row else ():
            sent = {"action": action, "_selected_action": [row.pk], "post": "yes", "confirm": "yes"}
            with CaptureQueriesContext(connection) as asked:
                answer = browser.post(address, sent)
            assert answer.status_code in (200, 302, 403), (address, action)
            wrong += [(address, action, written) for written in writes(asked.captured_queries)]
            offered += 1
    assert wrong == []
    assert offered > 5


def test_every_action_names_the_permission_that_it_needs():
    """One that names none is offered to everybody who may look at the list."""
    for model in OURS:
        registered = admin.site._registry[model]
        for action, name, _ in registered._get_base_actions():
            permissions = getattr(action, "allowed_permissions", ())
            assert permissions, (model, name)


def test_operators_may_change_pools_and_not_people(people):
    browser = people(OPERATORS)
    assert browser.get("/admin/pools/pool/add/").status_code == 200
    assert browser.get("/admin/auth/user/").status_code == 403


def test_the_groups_have_the_permissions_of_every_app_after_the_first_migration(db):
    Permission.objects.all().delete()
    call_command("migrate", verbosity=0)
    theirs = Permission.objects.exclude(content_type__app_label__in=NOT_THEIRS).exclude(
        content_type__model=NOR_THIS
    )
    assert {"enforcement", "pools", "billing"} <= {each.content_type.app_label for each in theirs}
    assert set(Group.objects.get(name=OPERATORS).permissions.all()) == set(theirs)
    seen = theirs.filter(codename__startswith="view_")
    assert set(Group.objects.get(name=AUDITORS).permissions.all()) == set(seen)


def test_what_a_superuser_gave_a_group_stays(people):
    people(AUDITORS)
    group = Group.objects.get(name=AUDITORS)
    extra = Group.objects.get(name=OPERATORS).permissions.get(codename="add_creditnote")
    group.permissions.add(extra)
    call_command("migrate", verbosity=0)
    assert extra in group.permissions.all()
    assert Group.objects.count() == 2


def test_a_tab_is_absent_without_its_permission(people, client):
    user = get_user_model().objects.create_user("half", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_pool"))
    client.force_login(user)
    pool = Pool.objects.first()
    for tab in all_tabs():
        answer = client.get(reverse(tab.url_name, args=[pool.pk]))
        assert answer.status_code == (200 if tab.permission == "pools.view_pool" else 403), tab.name
    page = client.get(reverse("admin:pools_pool_overview", args=[pool.pk])).content.decode()
    assert ">Members and groups</a>" in page
    assert ">Money</a>" not in page
    assert ">Demand</a>" not in page
