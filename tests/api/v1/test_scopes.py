"""Every route and method, by who asks: a route that is missing here fails."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import get_resolver

from allocator_service.core.clock import utc_now
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import ApiKey, Scope
from allocator_service.tenants.services import api_key_digest
from api.views import ContractView
from tests import factories

OPERATOR, TENANT, BILLING, AGENT, GROUP = "operator", "tenant", "billing", "agent", "group"
ALL = {OPERATOR, TENANT, BILLING}
BOTH = {OPERATOR, TENANT}
ONE = {OPERATOR}
OPEN = {"/", "/healthz", "/readyz", "/metrics", "/api/v1/", "/api/v1/schema/", "/api/v1/docs/"}

MATRIX = {
    "/api/v1/tenants/": {"GET": ALL, "POST": ONE},
    "/api/v1/tenants/<str:tenant>/": {"GET": ALL, "PATCH": ONE, "DELETE": ONE},
    "/api/v1/pools/": {"GET": ALL | {GROUP}, "POST": ONE},
    "/api/v1/pools/<str:pool>/": {"GET": ALL | {AGENT, GROUP}, "PATCH": ONE, "DELETE": ONE},
    "/api/v1/pools/<str:pool>/members/": {"GET": ALL | {AGENT, GROUP}},
    "/api/v1/pools/<str:pool>/members/<str:tenant>/": {
        "GET": ALL | {GROUP},
        "PUT": ONE | {GROUP},
        "DELETE": ONE,
    },
    "/api/v1/pools/<str:pool>/members/<str:tenant>/allocation-history/": {"GET": ALL},
    "/api/v1/pools/<str:pool>/groups/": {"GET": ALL | {AGENT, GROUP}, "POST": ONE},
    "/api/v1/pools/<str:pool>/groups/<str:group>/": {
        "GET": ALL | {GROUP},
        "PATCH": ONE | {GROUP},
        "DELETE": ONE,
    },
    "/api/v1/pools/<str:pool>/groups/<str:group>/history/": {"GET": ALL | {GROUP}},
    "/api/v1/pools/<str:pool>/servers/": {"GET": ALL | {AGENT}, "POST": BOTH},
    "/api/v1/pools/<str:pool>/servers/<str:server>/": {
        "GET": ALL | {AGENT},
        "PATCH": BOTH,
        "DELETE": BOTH,
    },
    "/api/v1/pools/<str:pool>/servers/<str:server>/drain/": {"POST": BOTH | {AGENT}},
    "/api/v1/pools/<str:pool>/servers/<str:server>/activate/": {"POST": BOTH},
    "/api/v1/pools/<str:pool>/servers/<str:server>/retire/": {"POST": BOTH},
    "/api/v1/pools/<str:pool>/workloads/": {"GET": ALL | {AGENT, GROUP}, "POST": BOTH},
    "/api/v1/pools/<str:pool>/workloads/<str:workload>/": {
        "GET": ALL | {AGENT, GROUP},
        "PATCH": BOTH,
        "DELETE": BOTH | {AGENT},
    },
    "/api/v1/pools/<str:pool>/imports/groups/": {"POST": ONE},
    "/api/v1/pools/<str:pool>/imports/nodes/": {"POST": ONE | {AGENT}},
    "/api/v1/pools/<str:pool>/imports/workloads/": {"POST": ONE | {AGENT}},
    "/api/v1/pools/<str:pool>/imports/usage/": {"POST": ONE | {AGENT}},
    "/api/v1/pools/<str:pool>/runs/": {"GET": ALL | {GROUP}, "POST": ONE},
    "/api/v1/pools/<str:pool>/decision/": {"GET": ALL | {AGENT, GROUP}},
    "/api/v1/pools/<str:pool>/allocations/": {"GET": ALL | {GROUP}},
    "/api/v1/pools/<str:pool>/placements/": {"GET": ALL},
    "/api/v1/pools/<str:pool>/decision/renderings/<str:target>/": {
        "GET": {OPERATOR, BILLING, AGENT}
    },
    "/api/v1/pools/<str:pool>/agents/<str:agent>/retire/": {"POST": ONE},
    "/api/v1/pools/<str:pool>/clusters/": {"GET": {OPERATOR, BILLING, AGENT}},
    "/api/v1/pools/<str:pool>/enforcement/": {"GET": ALL | {AGENT}, "PUT": ONE | {AGENT}},
    "/api/v1/pools/<str:pool>/entitlements/": {"GET": ALL | {AGENT, GROUP}},
    "/api/v1/runs/<str:run>/": {"GET": ALL | {GROUP}},
    "/api/v1/runs/<str:run>/allocations/": {"GET": ALL | {GROUP}},
    "/api/v1/runs/<str:run>/placements/": {"GET": ALL},
    "/api/v1/runs/<str:run>/certificate/": {"GET": ALL},
    "/api/v1/runs/<str:run>/schedule/": {"GET": ALL},
    "/api/v1/runs/<str:run>/input/": {"GET": ALL},
    "/api/v1/runs/<str:run>/tree/": {"GET": ALL | {GROUP}},
    "/api/v1/runs/<str:run>/proof/": {"GET": ALL},
    "/api/v1/runs/<str:run>/verify/": {"POST": ALL},
    "/api/v1/runs/<str:run>/explanation/<str:tenant>/": {"GET": ALL | {GROUP}},
    "/api/v1/pools/<str:pool>/simulations/": {"GET": BOTH, "POST": BOTH},
    "/api/v1/simulations/<str:simulation>/": {"GET": BOTH},
    "/api/v1/backtests/": {"GET": BOTH, "POST": BOTH},
    "/api/v1/backtests/<str:backtest>/": {"GET": BOTH},
    "/api/v1/backtests/<str:backtest>/cancel/": {"POST": BOTH},
    "/api/v1/backtests/<str:backtest>/results/": {"GET": BOTH},
    "/api/v1/events/": {"GET": ALL},
    "/api/v1/focus-schemas/<str:version>/": {"GET": ALL},
    "/api/v1/policies/": {"GET": ALL | {AGENT}},
    "/api/v1/evaluations/": {"POST": ALL},
    "/api/v1/comparisons/": {"POST": ALL},
    "/api/v1/ledger-entries/": {"GET": ALL},
    "/api/v1/ledger-entries/export/": {"GET": ALL},
    "/api/v1/ledger-blocks/": {"GET": {OPERATOR, BILLING}},
    "/api/v1/ledger-entries/<str:entry>/corrections/": {"POST": ONE},
    "/api/v1/pools/<str:pool>/usage/": {"POST": BOTH},
    "/api/v1/pools/<str:pool>/reports/sharing-degree/": {"GET": ALL | {GROUP}},
    "/api/v1/pools/<str:pool>/reports/fairness/": {"GET": ALL},
    "/api/v1/pools/<str:pool>/reports/utilization/": {"GET": ALL | {GROUP}},
    "/api/v1/pools/<str:pool>/reports/lending/": {"GET": ALL | {GROUP}},
    "/api/v1/pools/<str:pool>/reports/billing/": {"GET": ALL | {GROUP}},
    "/api/v1/price-plans/": {"GET": ALL, "POST": ONE},
    "/api/v1/price-plans/<str:plan>/": {"GET": ALL, "PATCH": ONE, "DELETE": ONE},
    "/api/v1/price-plans/<str:plan>/publish/": {"POST": ONE},
    "/api/v1/pools/<str:pool>/statements/": {"GET": ALL | {GROUP}, "POST": ONE},
    "/api/v1/pools/<str:pool>/statements/<str:month>/<str:tenant>/": {"GET": ALL | {GROUP}},
    "/api/v1/pools/<str:pool>/groups/<str:group>/statements/": {"GET": ALL | {GROUP}},
    "/api/v1/pools/<str:pool>/groups/<str:group>/statements/<str:month>/": {"GET": ALL | {GROUP}},
    "/api/v1/pools/<str:pool>/months/<str:month>/": {"GET": ALL},
    "/api/v1/pools/<str:pool>/months/<str:month>/manifest/": {"GET": ALL},
    "/api/v1/pools/<str:pool>/months/<str:month>/entries/": {"GET": ALL},
    "/api/v1/pools/<str:pool>/months/<str:month>/verify/": {"POST": ALL},
    "/api/v1/pools/<str:pool>/months/<str:month>/focus/": {"GET": ALL},
    "/api/v1/pools/<str:pool>/reratings/": {"GET": {OPERATOR, BILLING}, "POST": ONE},
    "/api/v1/pools/<str:pool>/credit-notes/": {"GET": ALL, "POST": ONE},
    "/api/v1/pools/<str:pool>/credit-notes/<str:credit_note>/reverse/": {"POST": ONE},
    "/api/v1/pools/<str:pool>/budgets/": {"GET": ALL | {GROUP}, "POST": ONE | {GROUP}},
    "/api/v1/pools/<str:pool>/budgets/<str:budget>/": {
        "GET": ALL | {GROUP},
        "PATCH": ONE | {GROUP},
        "DELETE": ONE | {GROUP},
    },
    "/api/v1/pools/<str:pool>/budgets/<str:budget>/clusters/": {"GET": ALL | {GROUP}},
    "/api/v1/pools/<str:pool>/budgets/<str:budget>/history/": {"GET": ALL | {GROUP}},
    "/api/v1/pools/<str:pool>/service-units/": {"GET": ALL, "POST": ONE},
    "/api/v1/webhooks/": {"GET": ALL, "POST": ALL},
    "/api/v1/webhooks/<str:webhook>/": {"GET": ALL, "PATCH": ALL, "DELETE": ALL},
    "/api/v1/webhooks/<str:webhook>/test/": {"POST": ALL},
    "/api/v1/webhooks/<str:webhook>/rotate-secret/": {"POST": ALL},
    "/api/v1/webhooks/<str:webhook>/deliveries/": {"GET": ALL},
    "/api/v1/webhooks/<str:webhook>/deliveries/<str:delivery>/resend/": {"POST": ALL},
}
# Of browsers: those of tenants have a matrix of their own in tests/pages.
PAGES = ("/my/", "/mail/", "/sign-in/", "/sign-out/", "/^(?:my|mail|sign-in|sign-out)/")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
SCOPES = sorted(ALL | {AGENT, GROUP})
CASES = [(route, method, scope) for route in MATRIX for method in METHODS for scope in SCOPES]


def routes(patterns: Any = None, prefix: str = "/") -> Iterator[tuple[str, Any]]:
    for pattern in patterns or get_resolver().url_patterns:
        path = prefix + str(pattern.pattern)
        if hasattr(pattern, "url_patterns"):
            yield from routes(pattern.url_patterns, path)
        else:
            yield path, pattern.callback


def contract_routes() -> dict[str, Any]:
    return {path: view for path, view in routes() if not path.startswith(("/admin/", *PAGES))}


def test_every_route_is_in_the_matrix():
    assert contract_routes().keys() == MATRIX.keys() | OPEN


@pytest.mark.parametrize("route", MATRIX)
def test_every_method_of_a_route_names_its_scopes(route):
    view = contract_routes()[route].cls
    assert issubclass(view, ContractView)
    named = {method: {str(scope) for scope in scopes} for method, scopes in view.scopes.items()}
    assert named == MATRIX[route]
    assert set(view().allowed_methods) - {"HEAD"} == MATRIX[route].keys()


@pytest.fixture
def clients(world, operator, billing):
    agent = factories.client(AGENT, pool="lab")
    group = factories.client(GROUP, group=factories.group(world.lab, "science"))
    return {
        OPERATOR: operator,
        BILLING: billing,
        TENANT: world.as_ada,
        AGENT: agent,
        GROUP: group,
    }


def path_of(route: str) -> str:
    values = {"pool": "nowhere", "tenant": "nobody", "target": "slurm", "group": "none",
              "agent": "none"}  # fmt: skip
    names = ("pool", "tenant", "group", "server", "workload", "run", "simulation", "plan", "month",
             "credit_note", "budget", "webhook", "delivery", "target", "agent")  # fmt: skip
    for name in names:
        unknown = values.get(name, "00000000-0000-7000-8000-000000000000")
        route = route.replace(f"<str:{name}>", unknown)
    return route


def test_who_may_what(clients, anonymous):
    """403 exactly where the scope lacks the route, 405 where the route lacks the method."""
    wrong: list[tuple[object, ...]] = []
    for route, method, scope in CASES:
        status = clients[scope].send(method, path_of(route)).status_code
        if method not in MATRIX[route]:
            expected = {405}
        elif scope not in MATRIX[route][method]:
            expected = {403}
        else:
            expected = {200, 400, 404, 422}
        if status not in expected:
            wrong.append((route, method, scope, status))
        if anonymous.send(method, path_of(route)).status_code != 401:
            wrong.append((route, method, "anonymous"))
    assert wrong == []


@pytest.mark.parametrize("path", sorted(OPEN - {"/metrics"}))
def test_open_routes_need_no_key_and_ignore_a_bad_one(path, anonymous, db):
    assert anonymous.get(path).status_code == 200
    assert anonymous.get(path, Authorization="Bearer nonsense").status_code == 200


def test_scopes_are_those_of_keys():
    assert set(Scope.values) == ALL | {AGENT, GROUP}


def test_an_agent_sees_its_pool_and_no_other(world):
    """What is below another pool is absent, exactly as below one that does not exist."""
    agent = factories.client(AGENT, pool="lab")
    below = [route for route, scopes in MATRIX.items() if AGENT in set().union(*scopes.values())]
    assert "/api/v1/policies/" in below
    for route in set(below) - {"/api/v1/policies/"}:
        for method in METHODS:
            if AGENT not in MATRIX[route].get(method, ()):
                continue
            own, other, none = (
                agent.send(method, path_of(route.replace("<str:pool>", pool)))
                for pool in ("lab", "other", "nowhere")
            )
            assert own.status_code != 404 or own.json()["code"] != "pool.not_found", route
            # Whoever sends no file is told so before anybody looks for the pool.
            assert other.status_code == (422 if "/imports/" in route else 404), route
            told = [{**each.json(), "request_id": "", "instance": ""} for each in (other, none)]
            assert told[0] == told[1], route
    body = {"content": "name,capacity.cpu\nnew,4\n"}
    refused = agent.post("/api/v1/pools/other/imports/nodes/", body)
    assert (refused.status_code, refused.json()["code"]) == (404, "pool.not_found")
    assert agent.post("/api/v1/pools/lab/imports/nodes/", body).status_code == 200
    Pool.objects.filter(slug="lab").update(retired_at=utc_now())
    assert agent.get("/api/v1/pools/lab/").status_code == 404


def test_a_keys_use_is_remembered_and_a_refused_keys_is_not(world):
    now = utc_now()
    used, refused = world.as_ada, world.as_bob
    ApiKey.objects.filter(digest=api_key_digest(refused.key)).update(revoked_at=now)
    assert used.get("/api/v1/pools/").status_code == 200
    assert refused.get("/api/v1/pools/").status_code == 401
    kept = {key.tenant.slug: key.last_used_at for key in ApiKey.objects.exclude(tenant=None)}
    assert kept["ada"] >= now
    assert kept["bob"] is kept["eve"] is None


def test_a_refusal_says_which_keys_have_the_route(operator):
    billing = factories.client("billing")
    refused = billing.post("/api/v1/tenants/", {"slug": "a", "name": "A"}).json()
    assert refused["code"] == "auth.scope"
    assert refused["detail"] == (
        "A key of scope billing cannot POST this route; use a key of scope operator."
    )
    agent = factories.client("agent", pool=factories.pool("lab").slug)
    detail = agent.get("/api/v1/pools/").json()["detail"]
    assert detail.endswith("use a key of scope operator or tenant or billing or group.")
