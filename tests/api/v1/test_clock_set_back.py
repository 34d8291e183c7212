"""A clock is set back an hour: nothing that is there vanishes, and nothing is a server error."""

import dataclasses
from datetime import timedelta

import pytest

from allocator_service.core.clock import utc_now
from tests import factories


@pytest.fixture
def set_back(settings, tmp_path, db):
    """Whatever exists was made in the hour that comes again."""
    clock = tmp_path / "clock"
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, clock_file=str(clock))
    clock.write_text("+0")

    def turn(seconds):
        before = utc_now()
        clock.write_text(f"{seconds:+d}")
        assert abs(utc_now() - before - timedelta(seconds=seconds)) < timedelta(seconds=60)

    return lambda: turn(-3600)


def test_members_stay_and_can_be_changed_and_admitted(set_back, world, operator):
    members = "/api/v1/pools/lab/members/"
    before = operator.get(members).json()
    set_back()
    assert operator.get(members).json() == before
    assert world.as_ada.get(f"{members}ada/").status_code == 200
    changed = operator.put(f"{members}ada/", {"weight": 3}, If_Match='"v1"')
    assert (changed.status_code, changed.json()["weight"]) == (200, 3)
    factories.tenant("late")
    assert operator.put(f"{members}late/", {"weight": 2}).status_code == 201
    again = operator.put(f"{members}late/", {"weight": 4}, If_Match='"v1"')
    assert (again.status_code, again.json()["weight"]) == (200, 4)


def test_servers_are_changed_drained_and_retired(set_back, world, operator):
    path = f"/api/v1/pools/lab/servers/{world.ada_server.pk}/"
    set_back()
    changed = operator.patch(path, {"capacity": {"cpu": 3, "memory": 12}}, If_Match='"v1"')
    assert (changed.status_code, changed.json()["capacity"]["cpu"]) == (200, 3)
    assert operator.post(f"{path}drain/").status_code == 200
    retired = operator.post(f"{path}retire/")
    assert (retired.status_code, retired.json()["state"]) == (200, "retired")
    (contribution,) = world.ada_server.contributions.all()
    assert contribution.end == contribution.start


def test_workloads_are_changed_and_withdrawn(set_back, world, operator):
    path = f"/api/v1/pools/lab/workloads/{world.ada_workload.pk}/"
    set_back()
    assert operator.patch(path, {"tasks": 3}, If_Match='"v1"').status_code == 200
    assert operator.patch(path, {"state": "withdrawn"}, If_Match='"v2"').status_code == 200


def test_pools_and_tenants_are_retired(set_back, world, operator):
    factories.pool("empty")
    factories.tenant("gone")
    set_back()
    assert world.as_eve.get("/api/v1/pools/other/").status_code == 200
    for path in ("/api/v1/pools/empty/", "/api/v1/tenants/gone/"):
        assert operator.delete(path, If_Match='"v1"').status_code in (200, 204)
