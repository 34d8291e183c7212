"""Changes of many servers at once."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from allocator_service.pools.models import Contribution
from allocator_service.pools.server_services import (
    ServerChange,
    ServerDraft,
    ServerSettings,
    server_update,
    servers_contribute,
    servers_update,
)
from tests.integration.conftest import NOON, vector

pytestmark = pytest.mark.django_db

LATER = NOON + timedelta(hours=1)


def contribute(pool, owner, count, *, prefix="n", at=NOON):
    drafts = [ServerDraft(f"{prefix}{n}", vector(4, 8), owner) for n in range(count)]
    servers_contribute(pool=pool, drafts=drafts, now=at)
    return list(pool.servers.filter(name__startswith=prefix).order_by("name"))


def changed(servers, cpu):
    return [
        ServerChange(each, ServerSettings(each.name, vector(cpu, 8), each.labels))
        for each in servers
    ]


def intervals(servers):
    """Return the contributions of servers, without the servers themselves."""
    rows = Contribution.objects.filter(server__in=servers).order_by("server__name", "start")
    return list(rows.values_list("tenant", "capacity", "start", "end"))


def test_a_change_of_many_capacities_takes_the_statements_of_one(pool, tenant):
    """They run under the lock of the pool, which every other change of it waits for."""
    counts = []
    for number, count in enumerate((1, 12)):
        servers = contribute(pool, tenant("ada"), count, prefix=f"s{number}-")
        with CaptureQueriesContext(connection) as queries:
            servers_update(pool=pool, changes=changed(servers, 5), now=LATER)
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_many_servers_contribute_as_each_changed_by_itself(pool, tenant):
    ada = tenant("ada")
    one = [*contribute(pool, ada, 2, prefix="a"), *contribute(pool, None, 1, prefix="b", at=LATER)]
    many = [*contribute(pool, ada, 2, prefix="c"), *contribute(pool, None, 1, prefix="d", at=LATER)]
    for each in changed(one, 5):
        server_update(server=each.server, settings=each.settings, version=None, now=LATER)
    servers_update(pool=pool, changes=changed(many, 5), now=LATER)
    assert intervals(many) == intervals(one)
    assert intervals(many) == [
        *[(ada.pk, vector(4, 8), NOON, LATER), (ada.pk, vector(5, 8), LATER, None)] * 2,
        (None, vector(5, 8), LATER, None),
    ]
    again = changed(many, 5)
    servers_update(pool=pool, changes=again, now=LATER + timedelta(hours=1))
    assert intervals(many) == intervals(one)
