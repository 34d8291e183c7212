"""Whatever stands in a field, a cell or a query: the answer is a refusal or a success, never 5xx."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections

from allocator_service.allocation.models import Run
from allocator_service.pools.models import Pool
from tests import factories
from tests.api.v1.test_scopes import MATRIX, contract_routes
from tests.examples import thorough

UNKNOWN = "00000000-0000-7000-8000-000000000000"
# What has broken services of this kind: the ends of machine numbers and of the calendar, what other
# languages read as a number, half a JSON document, characters that databases or terminals dislike.
HOSTILE: list[Any] = [
    *(-1, 0, 2**31, 2**63, 2**64, 10**39, 1e-300, 1e308, -0.0, True, None),
    *("", " ", "a" * 5_000, "NaN", "1e400", "-1", "1_000", "\u0661", '{"a":', "[]", "=1+1", "%00"),
    *("\u202ea", "\u2028", "\U0001f600", "e\u0301", "../..", "0" * 300),
    *("9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z", "9999-12-31T00:00:00-14:00"),
    *("P9999Y", "PT9999999999S", "P1M", "UTC0", "Asia/Tokyo", "00000000-0000-0000-0000-000000000000"),
    *([], {}, [None], {"": None}, [[]], {"cpu": {}}),
]  # fmt: skip
IN_CELLS = [text for text in HOSTILE if isinstance(text, str)] + [
    '"',
    "{}",
    '{"cpu": 1e999}',
    "1e30",
]
IN_QUERIES = [
    *("", "\0", "-1", "1e9", "1_000", "9" * 40, "a" * 5_000, "\u202ea", "%zz", "a,b", "{", "lab"),
    *(
        "9999-12-31T23:59:59.999999Z",
        "0001-01-01T00:00:00Z",
        "2026-01-05T00:00:00Z",
        "P9999Y",
        "PT1S",
    ),
]
# An evaluation takes a child process: what numbers, kinds and counts can do, not texts.
IN_EVALUATIONS: list[Any] = [-1, 0, 2**63, 10**39, 1e-300, 1e308, None, "", "NaN", [], {}]

EVALUATION = {
    "resources": ["cpu"],
    "servers": [
        {"name": "s", "capacity": {"cpu": 4}, "count": 2, "labels": {"zone": "a"}, "contributed_by": "a"}
    ],
    "tenants": [{"name": "a", "weight": 1}, {"name": "b"}],
    "workloads": [
        {"tenant": "a", "name": "w", "demand": {"cpu": 1}, "tasks": 3, "priority": 1},
        {"tenant": "b", "name": "v", "demand": {"cpu": 1}, "server_selector": {"zone": ["a"]}},
    ],
    "policy": {"name": "drfh", "mode": "divisible", "options": {}},
    "weights": "explicit",
    "include": ["certificate"],
}  # fmt: skip
BODIES: dict[str, Any] = {
    "POST /tenants/": {"slug": "new", "name": "New"},
    "PATCH /tenants/ada/": {"name": "Ada"},
    "POST /pools/": {
        "slug": "new", "name": "New", "resources": [{"name": "cpu", "unit": "core"}],
        "policy": {"name": "h-mrf", "mode": "indivisible", "options": {"starvation_timeout": "P1D"}},
        "window": {"kind": "tumbling", "length": "P7D", "anchor": "2026-01-05T00:00:00Z",
                   "half_life": "P1D"},
        "weights": "explicit", "decision_interval": "PT1M", "metering": "allocation",
        "currency": "EUR", "timezone": "Europe/Berlin", "transparent": False,
    },
    "PATCH /pools/lab/": {"window": {"kind": "decay", "anchor": "2026-01-05T00:00:00Z"}, "name": "L"},
    "PUT /pools/lab/members/ada/": {"weight": 1, "best_effort": False, "group": "ml", "tier": 1},
    "POST /pools/lab/groups/": {
        "slug": "new", "name": "New", "parent": "ml", "weight": 2.5, "tier": -1,
    },
    "PATCH /pools/lab/groups/ml/": {"name": "ML", "parent": None, "weight": 3, "tier": 0},
    "POST /pools/lab/servers/": {
        "name": "n", "contributed_by": "ada", "capacity": {"cpu": 1, "memory": "4Gi"},
        "labels": {"zone": "a"}, "count": 2,
    },
    "PATCH /pools/lab/servers/{server}/": {"capacity": {"cpu": 1}, "labels": {"zone": "a"}},
    "POST /pools/lab/workloads/": {
        "tenant": "ada", "name": "n", "demand": {"cpu": 1}, "tasks": 1, "priority": 0,
        "server_selector": {"zone": ["a", "b"]},
    },
    "PATCH /pools/lab/workloads/{workload}/": {"demand": {"cpu": 1}, "tasks": 2, "state": "paused"},
    "POST /pools/lab/runs/": {"reason": "because"},
    "POST /pools/lab/imports/groups/": {"format": "csv", "content": "slug,parent\na,\n"},
    "POST /pools/lab/imports/nodes/": {"format": "csv", "content": "name,cpu\na,1\n", "dry_run": True},
    "POST /pools/lab/imports/workloads/": {"format": "csv", "content": "tenant,name\nada,w\n"},
    "POST /pools/reported/imports/usage/": {"format": "sacct", "content": "JobID|User\n1|ada\n"},
    "POST /pools/reported/usage/": [
        {"source": "m", "id": "1", "tenant": "ada", "tasks": 1, "resources": {"cpu": 1},
         "start": "2026-01-05T00:00:00Z", "end": "2026-01-05T01:00:00Z"},
    ],
    "POST /pools/lab/simulations/": {
        "policy": {"name": "drf", "mode": "divisible", "options": {"x": 1}}, "weights": "explicit",
        "members": [{"tenant": "ada", "weight": 2, "best_effort": False, "group": "ml", "tier": 1}],
        "groups": [{"group": "ml", "parent": None, "weight": 2, "tier": 1}],
        "servers": {"add": [{"name": "x", "capacity": {"cpu": 1}, "labels": {}, "count": 1}],
                    "drain": ["{server}"], "retire": ["{server}"]},
        "workloads": {"submit": [{"tenant": "ada", "name": "x", "demand": {"cpu": 1}, "tasks": 1}],
                      "change": [{"id": "{workload}", "tasks": 1, "priority": 1}],
                      "withdraw": ["{workload}"]},
    },
    "POST /backtests/": {
        "name": "n", "pool": "lab", "step": "PT1M", "resample": True, "seeds": [1, 2],
        "trace": {"format": "csv", "encoding": "text", "begin": "2026-01-05T00:00:00Z",
                  "skip_bad_lines": True,
                  "content": "tenant,submit,duration,demand.cpu\nada,0,1,1\n"},
        "servers": [{"name": "s", "capacity": {"cpu": "4"}, "count": 2, "labels": {"zone": "a"},
                     "contributed_by": "ada"}],
        "tenants": [{"name": "ada", "weight": 2, "best_effort": False}],
        "policies": ["drf", {"name": "slots", "options": {"slots_per_largest_server": 14}}],
        "window": {"kind": "decay", "half_life": "P7D", "length": "P1D"}, "price_plan": None,
    },
    "POST /evaluations/": EVALUATION,
}  # fmt: skip
ROWS = {
    "/pools/lab/groups/": {
        "slug": "new", "name": "New", "parent": "ml", "weight": "2.5", "tier": "-1",
    },
    "/pools/lab/servers/": {
        "name": "n", "contributed_by": "ada", "capacity.cpu": "1", "capacity": '{"cpu": 1}',
        "labels": '{"zone": "a"}', "labels.zone": "a", "count": "2",
    },
    "/pools/lab/workloads/": {
        "tenant": "ada", "name": "n", "demand": '{"cpu": 1}', "demand.cpu": "1", "tasks": "1",
        "priority": "0", "server_selector": '{"zone": ["a"]}', "server_selector.zone": "a",
    },
    "/pools/reported/usage/": {
        "source": "m", "id": "1", "tenant": "ada", "tasks": "1", "resources": '{"cpu": 1}',
        "resources.cpu": "1", "start": "2026-01-05T00:00:00Z", "end": "2026-01-05T01:00:00Z",
    },
}  # fmt: skip


@pytest.fixture
def names(world, operator) -> Iterator[dict[str, str]]:
    """Ids by the names that paths have for them."""
    request_started.disconnect(close_old_connections)
    request_finished.disconnect(close_old_connections)
    factories.pool("reported", metering="reported")
    factories.group(world.lab, "ml")
    yield {"server": str(world.ada_server.pk), "workload": str(world.ada_workload.pk)}
    request_started.connect(close_old_connections)
    request_finished.connect(close_old_connections)


def filled(value: Any, names: dict[str, str]) -> Any:
    text = json.dumps(value)
    for name, id_ in names.items():
        text = text.replace(f"{{{name}}}", id_)
    return json.loads(text)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where in a document values stand, objects and arrays included."""
    yield at
    members: Any = ()
    if isinstance(value, dict):
        members = value.items()
    if isinstance(value, list):
        members = enumerate(value)
    for name, member in members:
        yield from places(member, (*at, name))


def some(values: list[Any], number: int) -> list[Any]:
    """What to put in the place of that number: every fourth value in turn, all if there is time."""
    return values if thorough() else values[number % 4 :: 4]


def replaced(value: Any, at: tuple[Any, ...], by: Any) -> Any:
    if not at:
        return by
    copy = value.copy()
    copy[at[0]] = replaced(value[at[0]], at[1:], by)
    return copy


def broken(answers: list[tuple[Any, Any]]) -> list[str]:
    """The answers that are 5xx, or a refusal that is no problem document, each with its cause."""
    wrong = []
    for cause, answer in answers:
        kind = answer.headers.get("Content-Type", "")
        refusal = answer.status_code >= 400 and not kind.startswith("application/problem+json")
        if answer.status_code >= 500 or refusal:
            wrong.append(f"{cause}: {answer.status_code}")
    return wrong


@pytest.mark.django_db
@pytest.mark.parametrize("operation", BODIES)
def test_of_any_field(operation, names, operator):
    method, _, path = operation.partition(" ")
    path = f"/api/v1{filled(path, names)}"
    body = filled(BODIES[operation], names)
    values = IN_EVALUATIONS if "evaluations" in path else HOSTILE
    answers = [
        ((at, value), operator.send(method, path, replaced(body, at, value), If_Match="*"))
        for number, at in enumerate(places(body))
        for value in some(values, number)
    ]
    wrong = broken(answers)
    assert not wrong, "\n".join(wrong)


@pytest.mark.django_db
@pytest.mark.parametrize("path", ROWS)
def test_of_any_cell(path, names, operator):
    answers = []
    for number, column in enumerate(ROWS[path]):
        plain = {
            name: cell
            for name, cell in ROWS[path].items()
            if name == column
            or not (name.startswith(f"{column}.") or column.startswith(f"{name}."))
        }
        for value in some(IN_CELLS, number):
            cells = [
                '"' + cell.replace('"', '""') + '"' for cell in {**plain, column: value}.values()
            ]
            body = f"{','.join(plain)}\n{','.join(cells)}\n".encode()
            answer = operator.send("POST", f"/api/v1{path}", body, content_type="text/csv")
            answers.append(((column, value), answer))
    wrong = broken(answers)
    assert not wrong, "\n".join(wrong)


@pytest.mark.django_db(transaction=True)  # exports have snapshots of their own
def test_of_any_query(names, operator):
    factories.decision(Pool.objects.get(slug="lab"))
    names = {**names, "pool": "lab", "tenant": "ada", "run": str(Run.objects.get().pk)}
    answers = []
    for route, methods in MATRIX.items():
        if "GET" not in methods:
            continue
        path = re.sub("<str:([a-z]+)>", lambda part: names.get(part[1], UNKNOWN), route)
        parameters = (*contract_routes()[route].cls.parameters.fields, "format", "other")
        for number, parameter in enumerate(parameters, start=len(answers)):
            for value in some(IN_QUERIES, number):
                url = f"{path}?{parameter}={quote(value)}"
                answers.append((url[:200], operator.get(url)))
                answers[-1][1].close()
    assert len(answers) > 500
    wrong = broken(answers)
    assert not wrong, "\n".join(wrong)


@pytest.mark.django_db
def test_of_any_name_in_a_path(world, operator):
    answers = []
    for route, methods in MATRIX.items():
        if "<" not in route:
            continue
        for value in ("\0", "\u202e", "a" * 5_000, "%2e%2e", "-1", "9" * 40, "{", "\U0001f600"):
            path = re.sub("<str:[a-z]+>", quote(value), route)
            answers += [((method, path[:200]), operator.send(method, path)) for method in methods]
    wrong = broken(answers)
    assert not wrong, "\n".join(wrong)


@pytest.mark.django_db
@pytest.mark.parametrize("query", ["version=%00", "version=v1", "lang=%00", "format=%00"])
def test_the_openapi_document_has_one_version_and_two_formats(query, anonymous):
    refused = anonymous.get(f"/api/v1/schema/?{query}")
    assert refused.status_code in (400, 406)
    assert refused["Content-Type"] == "application/problem+json"


@pytest.mark.django_db
@pytest.mark.parametrize("policy", [{"name": "drfh"}, {"name": "drfh", "mode": "indivisible"},
                                    {"name": "mrfs"}, {"name": "h-mrf"}])  # fmt: skip
def test_without_servers_a_selector_allows_none(policy, operator):
    asked = {**EVALUATION, "servers": [], "policy": policy,
             "include": ["placements", "certificate", "explanations"]}  # fmt: skip
    answer = operator.post("/api/v1/evaluations/", asked)
    assert answer.status_code == 200
    assert [row["tasks"] for row in answer.json()["allocations"]] == [0, 0]


@pytest.mark.django_db
def test_numbers_that_are_too_far_apart_for_a_proof_are_the_problem_s_fault(operator):
    answer = operator.post(
        "/api/v1/evaluations/",
        {**EVALUATION, "tenants": [{"name": "a", "weight": 2**64}, {"name": "b"}]},
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "solve.failed")


@pytest.mark.django_db
def test_options_of_pools_and_simulations_may_be_fractions(operator, world):
    policy = {"name": "h-mrf", "options": {"borrow_cap": 0.25, "starvation_timeout": 2**70}}
    kept = {"borrow_cap": 0.25, "starvation_timeout": float(2**70)}
    made = operator.post(
        "/api/v1/pools/",
        {"slug": "new", "name": "New", "resources": [{"name": "cpu"}], "policy": policy},
    )
    assert (made.status_code, made.json()["policy"]["options"]) == (201, kept)
    asked = operator.post("/api/v1/pools/lab/simulations/", {"policy": policy})
    assert (asked.status_code, asked.json()["changes"]["policy"]["options"]) == (202, kept)


@pytest.mark.django_db
def test_whole_numbers_beyond_64_bits_are_answered_as_they_were_sent(operator, world):
    change = {"servers": {"add": [{"name": "x", "capacity": {"cpu": 10**39}}]}}
    asked = operator.post("/api/v1/pools/lab/simulations/", change)
    assert asked.status_code == 202
    (server,) = json.loads(asked.content)["changes"]["servers"]["add"]
    assert server["capacity"] == {"cpu": 10**39}


@pytest.mark.django_db
@pytest.mark.parametrize("anchor", ["9999-12-31T00:00:00Z", "0001-01-01T00:00:00Z"])
def test_a_window_is_anchored_near_the_present(anchor, operator, world):
    body = {"slug": "far", "name": "Far", "policy": {"name": "drf"}, "window": {"anchor": anchor},
            "resources": [{"name": "cpu"}], "timezone": "Asia/Tokyo"}  # fmt: skip
    answer = operator.post("/api/v1/pools/", body)
    assert (answer.status_code, answer.json()["code"]) == (422, "window.anchor")
    assert answer.json()["errors"][0]["pointer"] == "/window/anchor"
    assert not Pool.objects.filter(slug="far").exists()
