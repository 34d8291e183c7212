"""Requests with instants of the years 1 and 9999, in zones east and west of UTC, fail without a 5xx."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.core.clock import utc_now
from allocator_service.pools.models import Pool
from api.contract.fields import TimestampField
from tests import factories
from tests.api.test_never_a_server_error import UNKNOWN, broken, filled, names, places, replaced
from tests.api.v1.test_scopes import MATRIX, contract_routes
from tests.pages.browser import browser_of

__all__ = ["names"]  # fixtures of other modules

# The second and the last one are beyond the calendar of UTC, the others beyond that of some zone.
ENDS = [
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T12:00:00-14:00",
]
AT, LATER = "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z"
DATES = {"from": AT, "to": LATER}
ROW = {"amount": {"cpu": 1}, **DATES}
JOB = {"name": "j", "jobs": ["1"], "tasks": 1, "ends_at": AT}
BODIES: dict[str, Any] = {
    "PUT /pools/lab/members/ada/": {"weight": 1, "limit": [ROW], "guarantee": [ROW], "lend": [ROW]},
    "PATCH /pools/lab/groups/ml/": {"limit": [ROW], "guarantee": [ROW]},
    "PATCH /pools/lab/workloads/{workload}/": {"limit": [ROW]},
    "PATCH /pools/lab/": {"window": {"kind": "sliding", "anchor": AT}},
    "POST /pools/lab/budgets/": {
        "tenant": "ada", "resource": "cpu", "amount": "1", "per": "P1M", **DATES,
    },
    "POST /price-plans/": {
        "pool": "lab", "name": "P", "rates": [{"resource": "cpu", "pool": "1"}], **DATES,
        "spot_prices": [{"resource": "cpu", "kind": "pool", "price": "1", **DATES}],
        "commitments": [
            {"tenant": "ada", "resource": "cpu", "quantity": "1", "price": "1", **DATES}
        ],
    },
    "POST /pools/reported/usage/": [
        {"source": "m", "id": "1", "tenant": "ada", "resources": {"cpu": 1}, "start": AT, "end": LATER}
    ],
    "POST /backtests/": {
        "name": "n", "pool": "lab", "step": "PT1M", "policies": ["drf"], "history": DATES,
    },
    "POST /backtests/#trace": {
        "name": "n", "pool": "lab", "step": "PT1M", "policies": ["drf"],
        "trace": {"format": "csv", "encoding": "text", "begin": AT,
                  "content": "tenant,submit,duration,demand.cpu\nada,0,1,1\n"},
    },
    "PUT /pools/lab/enforcement/": {
        "agent": "a", "target": "slurm", "interval": "PT15S", "run": "{run}", "generation": 0,
        "class_label": "partition", "reported_at": AT,
        "tenants": [{"tenant": "ada", "applied": {"cpu": 1}, "used": {"cpu": 1}, "ending": [JOB]}],
    },
    "POST /pools/reported/imports/usage/": {
        "format": "swf", "begin": AT, "content": "1 0 0 60 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1\n",
    },
}  # fmt: skip


@pytest.fixture(params=["Pacific/Kiritimati", "America/Adak"])
def there(request, names, world):
    """The names of objects whose pools are in a time zone, with a decision of `lab`."""
    Pool.objects.update(timezone=request.param)
    factories.member(world.lab, world.ada, "ml")
    run = factories.decision(Pool.objects.get(slug="lab"))
    return {**names, "run": str(run.pk), "pool": "lab", "tenant": "ada", "group": "ml"}


def read_paths(names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Each route that is read, with its path."""
    for route, methods in MATRIX.items():
        if "GET" in methods:
            yield route, re.sub("<str:([a-z]+)>", lambda part: names.get(part[1], UNKNOWN), route)


@pytest.mark.django_db(transaction=True)  # exports have snapshots of their own
@pytest.mark.parametrize("operation", BODIES)
def test_of_any_body_and_of_all_that_is_read_after_it(operation, there, operator, world):
    method, _, path = operation.partition("#")[0].partition(" ")
    path, body = filled([f"/api/v1{path}", BODIES[operation]], there)
    if "generation" in body:
        body["generation"] = operator.get(f"/api/v1/runs/{there['run']}/").json()["generation"]
    answers = [
        ((at, end), operator.send(method, path, replaced(body, at, end), If_Match="*"))
        for at in places(body)
        if json.dumps(value_at(body, at)) in (f'"{AT}"', f'"{LATER}"')
        for end in ENDS
    ]
    assert answers
    recompute_pool(pool_id=world.lab.pk, clock=utc_now, early=True)
    for _, read in read_paths(there):
        answers.append((read, operator.get(read)))
        answers[-1][1].close()
    wrong = broken(answers)
    assert not wrong, "\n".join(wrong)
    visitor = browser_of(factories.client("tenant", world.ada))
    for page in ("/my/", "/my/pools/lab/", "/my/pools/lab/groups/ml/"):
        assert visitor.get(page).status_code in (200, 302), page


def value_at(body: Any, at: tuple[Any, ...]) -> Any:
    for name in at:
        body = body[name]
    return body


@pytest.mark.django_db(transaction=True)
def test_of_any_query(there, operator):
    answers = []
    for route, path in read_paths(there):
        for name, field in contract_routes()[route].cls.parameters.fields.items():
            if isinstance(field, TimestampField):
                for end in ENDS:
                    url = f"{path}?{name}={quote(end)}"
                    answers.append((url, operator.get(url)))
                    answers[-1][1].close()
    assert len(answers) > 40
    wrong = broken(answers)
    assert not wrong, "\n".join(wrong)
