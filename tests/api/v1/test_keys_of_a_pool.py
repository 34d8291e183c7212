"""Keys that are bound to a pool: what belongs to another is absent, as what does not exist."""

from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command

from allocator_service.core.errors import Unacceptable
from allocator_service.tenants.models import ApiKey
from allocator_service.tenants.services import api_key_create, api_key_rotate
from tests import factories
from tests.api.v1.test_scopes import (
    AGENT,
    BILLING,
    MATRIX,
    METHODS,
    OPERATOR,
    TENANT,
    path_of,
)

pytestmark = pytest.mark.django_db

# What keys have that are bound to a pool, besides everything below /pools/{pool}/.
BESIDES = {
    ("/api/v1/pools/", "GET"),
    ("/api/v1/policies/", "GET"),
    ("/api/v1/focus-schemas/<str:version>/", "GET"),
    ("/api/v1/evaluations/", "POST"),
    ("/api/v1/simulations/<str:simulation>/", "GET"),
    *(
        (route, method)
        for route in MATRIX
        if "/runs/<str:run>/" in route
        for method in MATRIX[route]
    ),
}
UNKNOWN = "00000000-0000-7000-8000-000000000000"
NOW = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture(params=[OPERATOR, BILLING])
def scope(request):
    return request.param


@pytest.fixture
def bound(world, scope):
    return factories.client(scope, pool="lab")


def said(answer):
    return {**answer.json(), "request_id": "", "instance": ""}


def test_every_route_is_there_as_without_the_binding_or_says_why_not(bound, scope, world):
    free = factories.client(scope)
    refused = set()
    for route, methods in MATRIX.items():
        for method in METHODS:
            path = path_of(route.replace("<str:pool>", "lab"))
            answer = bound.send(method, path)
            if answer.status_code == 403 and answer.json()["code"] == "auth.pool":
                refused.add((route, method))
                continue
            if "<str:pool>" not in route:  # the others may change the pool
                assert answer.status_code == free.send(method, path).status_code, (route, method)
            else:
                forbidden = method in methods and scope not in methods[method]
                assert (answer.status_code == 403) == forbidden, (route, method)
    has = {(route, method) for route in MATRIX for method in METHODS
           if scope in MATRIX[route].get(method, ())}  # fmt: skip
    below = {(route, method) for route, method in has if "/pools/<str:pool>/" in route}
    assert refused == has - below - BESIDES
    assert ("/api/v1/events/", "GET") in refused


def test_below_another_pool_everything_is_absent_as_below_none(bound, scope):
    for route, methods in MATRIX.items():
        if "<str:pool>" not in route:
            continue
        for method in METHODS:
            if scope in methods.get(method, ()):
                other, none = (
                    bound.send(method, path_of(route.replace("<str:pool>", pool)))
                    for pool in ("other", "nowhere")
                )
                # Whoever sends no file is told so before anybody looks for the pool.
                assert other.status_code == (422 if "/imports/" in route else 404), (route, method)
                assert said(other) == said(none), (route, method)


def test_the_list_of_pools_has_the_one(bound, world):
    page = bound.get("/api/v1/pools/").json()
    assert ([pool["slug"] for pool in page["results"]], page["next"]) == (["lab"], None)


@pytest.mark.django_db(transaction=True)
def test_runs_of_another_pool_are_absent(bound, world):
    own, other = factories.decision(world.lab), factories.decision(world.other)
    for route in MATRIX:
        if "/runs/<str:run>/" not in route:
            continue
        method = next(iter(MATRIX[route]))
        answers = [
            bound.send(
                method, path_of(route.replace("<str:run>", run).replace("<str:tenant>", "eve"))
            )
            for run in (str(other.pk), UNKNOWN)
        ]
        assert answers[0].status_code == 404, route
        assert said(answers[0]) == said(answers[1]), route
    assert bound.get(f"/api/v1/runs/{own.pk}/").status_code == 200
    assert bound.send("POST", f"/api/v1/runs/{own.pk}/verify/", {}).status_code == 200


def test_simulations_of_another_pool_are_absent(world):
    operator, bound = factories.client(OPERATOR), factories.client(OPERATOR, pool="lab")
    made = {
        pool: operator.post(f"/api/v1/pools/{pool}/simulations/", {}).json()["id"]
        for pool in ("lab", "other")
    }
    assert bound.get(f"/api/v1/simulations/{made['lab']}/").status_code == 200
    foreign, unknown = (
        bound.get(f"/api/v1/simulations/{name}/") for name in (made["other"], UNKNOWN)
    )
    assert foreign.status_code == 404
    assert said(foreign) == said(unknown)


def test_an_operator_of_a_pool_changes_it_and_no_other(world):
    bound = factories.client(OPERATOR, pool="lab")
    server = {"name": "new", "capacity": {"cpu": 1}}
    assert bound.post("/api/v1/pools/lab/servers/", server).status_code == 201
    before = world.other.servers.count()
    assert bound.post("/api/v1/pools/other/servers/", server).status_code == 404
    assert bound.post("/api/v1/pools/", {"slug": "third"}).json()["code"] == "auth.pool"
    assert bound.get("/metrics").status_code == 401
    assert world.other.servers.count() == before


def test_which_keys_may_be_bound(world):
    expires = NOW + timedelta(days=1)

    def make(scope, tenant=None, pool=""):
        return api_key_create(
            scope=scope,
            name=f"{scope} {pool}".strip(),
            tenant=tenant,
            pool=pool,
            expires_at=expires,
            now=NOW,
        ).key

    assert make(OPERATOR, pool="lab").pool == make(BILLING, pool="lab").pool == "lab"
    assert make(OPERATOR).pool == ""
    before = ApiKey.objects.count()
    for scope, tenant, pool in (
        (TENANT, world.ada, "lab"), (TENANT, None, "lab"), (AGENT, None, ""),
        (OPERATOR, world.ada, "lab"), (BILLING, world.ada, ""),
    ):  # fmt: skip
        with pytest.raises(Unacceptable):
            make(scope, tenant, pool)
    assert ApiKey.objects.count() == before
    assert api_key_rotate(name="operator lab", expires_at=expires, now=NOW).key.pool == "lab"


def test_the_command_binds_and_lists(world, capsys):
    call_command("apikey", "create", "--scope", "operator", "--pool", "lab", "--name", "of-lab")
    assert ApiKey.objects.get(name="of-lab").pool == "lab"
    call_command("apikey", "list")
    assert "\tof-lab\toperator\tlab\tlive\t" in capsys.readouterr().out
    with pytest.raises(CommandError, match="no such pool"):
        call_command("apikey", "create", "--scope", "billing", "--pool", "x", "--name", "b")
