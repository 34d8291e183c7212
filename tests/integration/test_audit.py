"""Every change leaves a row that says who, what, from what to what, and why."""

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from allocator_service.core.audit import Change, acting_as, audit_record_all
from allocator_service.core.models import AuditEntry
from allocator_service.pools.models import Membership, Server
from allocator_service.pools.server_services import server_drain
from allocator_service.tenants.services import tenant_update
from tests.integration.conftest import NOON

pytestmark = pytest.mark.django_db


def entries(**filters):
    return list(
        AuditEntry.objects.filter(**filters)
        .order_by("pk")
        .values_list("actor", "action", "before", "after", "reason")
    )


def test_a_change_tells_only_what_differs(fig2, now):
    server = Server.objects.get(name="high-cpu")
    with acting_as("user ann", reason="new fans"):
        server_drain(server=server, now=now)
    assert entries(object_id=str(server.pk)) == [
        ("user ann", "server.drain", {"state": "active"}, {"state": "draining"}, "new fans")
    ]


def test_a_change_that_changes_nothing_leaves_no_row(fig2, now):
    server = Server.objects.get(name="high-cpu")
    server_drain(server=server, now=now)
    server_drain(server=server, now=now)
    assert len(entries(action="server.drain")) == 1


def test_bulk_changes_say_how_many_and_which(fig2):
    ((actor, _, _, after, _),) = entries(action="server.contribute")
    assert actor == "the service itself"
    assert after["servers"] == 2
    assert (after["first"]["name"], after["last"]["name"]) == ("high-memory", "high-cpu")
    ((_, _, _, after, _),) = entries(action="workload.submit")
    assert after["workloads"] == 2


def test_a_refused_change_leaves_no_row(tenant, now):
    from allocator_service.core.errors import Stale

    physics = tenant("physics")
    with pytest.raises(Stale):
        tenant_update(tenant=physics, name="Other", version=9, now=now)
    assert entries(action="tenant.update") == []


def test_the_admin_names_the_operator_and_the_reason(client, fig2):
    client.force_login(get_user_model().objects.create_superuser("olga"))
    membership = Membership.objects.get(tenant__slug="u1")
    answer = client.post(
        reverse("admin:pools_membership_change", args=[membership.pk]),
        {"weight": "2.5", "reason": "bought a rack", "confirmed": "yes"},
    )
    assert answer.status_code == 302
    ((actor, _, before, after, reason),) = entries(action="member.update")
    assert (actor, reason) == ("user olga", "bought a rack")
    assert (float(before["weight"]), float(after["weight"])) == (1, 2.5)


def test_the_admins_actions_carry_their_reason(client, fig2):
    client.force_login(get_user_model().objects.create_superuser("olga"))
    server = Server.objects.get(name="high-cpu")
    client.post(
        reverse("admin:pools_server_changelist"),
        {
            "action": "retire",
            "_selected_action": [str(server.pk)],
            "reason": "end of lease",
            "confirmed": "yes",
        },
    )
    ((actor, _, _, after, reason),) = entries(action="server.retire")
    assert (actor, reason, after["state"]) == ("user olga", "end of lease", "retired")


def test_keys_are_told_without_their_digest(tenant, now):
    from datetime import timedelta

    from allocator_service.tenants.services import api_key_create

    issued = api_key_create(
        scope="operator", name="k", tenant=None, expires_at=now + timedelta(days=1), now=now
    )
    ((_, _, _, after, _),) = entries(action="api_key.create")
    assert issued.text not in str(after)
    assert "digest" not in after


def test_names_that_have_to_be_read_are_read_before_the_rows_are_copied(fig2):
    """A read in the middle of a COPY, which holds the connection, waited for ever."""
    some = list(Membership.objects.filter(pool=fig2))
    audit_record_all(
        action="member.admit", changes=[Change(each, None, {}) for each in some], now=NOON
    )
    names = AuditEntry.objects.filter(action="member.admit").values_list("object_name", flat=True)
    assert {str(each) for each in some} <= set(names)
