"""Evaluations: the same engine without storing anything, whatever is sent."""

import dataclasses
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from copy import deepcopy
from threading import Barrier
from typing import Any
from uuid import uuid4

import jsonschema
import pytest

from allocator_service.allocation.what_if import evaluations
from allocator_service.core.errors import Unavailable
from allocator_service.core.models import Event
from allocator_service.pools.models import Pool
from api.limiter import limiter
from policies import policies_available
from tests import factories
from tests.api.v1.test_conventions import code
from tests.documented import openapi
from tests.evaluations import long_evaluation

EVALUATIONS = "/api/v1/evaluations/"
FIG2: dict[str, Any] = {
    "resources": ["cpu", "memory"],
    "servers": [
        {"name": "s1", "capacity": {"cpu": 2, "memory": 12}},
        {"name": "s2", "capacity": {"cpu": 12, "memory": 2}},
    ],
    "tenants": [{"name": "u1"}, {"name": "u2"}],
    "workloads": [
        {"tenant": "u1", "name": "a", "demand": {"cpu": 0.2, "memory": 1}},
        {"tenant": "u2", "name": "b", "demand": {"cpu": 1, "memory": 0.2}},
    ],
    "policy": {"name": "drfh"},
}


def changed(path: str, value: object) -> Any:
    """FIG2 with the member at a pointer replaced."""
    document: Any = deepcopy(FIG2)
    *parents, last = [int(part) if part.isdigit() else part for part in path.strip("/").split("/")]
    target: Any = document
    for part in parents:
        target = target[part]
    target[last] = value
    return document


def test_the_papers_figure_is_answered_and_nothing_is_stored(operator):
    response = operator.post(EVALUATIONS, {**FIG2, "include": ["placements", "certificate"]})
    assert response.status_code == 200
    document = response.json()
    assert [row["tasks"] for row in document["allocations"]] == pytest.approx([10, 10], rel=1e-12)
    assert document["allocations"][0]["workload"] == {"id": None, "name": "a"}
    assert document["summary"]["min_weighted_share"] == pytest.approx(5 / 7, rel=1e-12)
    assert {row["server"] for row in document["placements"]} == {"s1", "s2"}
    assert document["certificate"]["rounds"]
    assert not Pool.objects.exists()
    assert not Event.objects.exists()


def test_shares_of_tasks_over_those_alone(operator):
    """Proposition 4 of DRFH: 6/11 of the tasks that each would run alone."""
    document = deepcopy(FIG2)
    for server, capacity in zip(document["servers"], [(1, 2), (4, 3)], strict=True):
        server["capacity"] = {"cpu": capacity[0], "memory": capacity[1]}
    for workload, demand in zip(document["workloads"], [(1, 1), (3, 2)], strict=True):
        workload["demand"] = {"cpu": demand[0], "memory": demand[1]}
    document["policy"] |= {"options": {"share": "alone"}}
    document["include"] = ["certificate", "explanations"]
    answer = operator.post(EVALUATIONS, document).json()
    assert [row["tasks"] for row in answer["allocations"]] == pytest.approx([24 / 11, 10 / 11])
    assert answer["summary"]["objective"] == pytest.approx(6 / 11)
    assert [row["level"] for row in answer["explanations"]] == pytest.approx([6 / 11, 6 / 11])
    assert "54.55 % of what it would run alone" in answer["explanations"][0]["sentence"]


@pytest.mark.parametrize(
    ("name", "mode"), [(info.name, mode) for info in policies_available() for mode in info.modes]
)
def test_answers_of_every_policy_are_as_the_document_describes_them(operator, name, mode):
    """With all that can be included; `tda` is stopped early, so that a round is left open."""
    asked: Any = {
        **FIG2,
        "tenants": [{"name": f"u{i}"} for i in range(1, 5)],
        "workloads": [
            {"tenant": f"u{i}", "name": "a", "demand": {"cpu": i, "memory": 5 - i}, "tasks": i}
            for i in range(1, 5)
        ],
        "policy": {"name": name, "mode": mode},
        "include": ["placements", "certificate", "properties", "schedule", "explanations"],
    }
    if name == "tda":
        asked["policy"]["options"] = {"effort": 1e-9}
    response = operator.post(EVALUATIONS, asked)
    assert response.status_code == 200, response.content
    if name == "tda":
        assert not all(
            item.get("proven", True) for item in response.json()["certificate"]["rounds"]
        )
    described = openapi()
    schema = {"$ref": "#/components/schemas/EvaluationDocument", **described}
    jsonschema.Draft202012Validator(schema).validate(response.json())


def test_every_scope_may_ask(world, billing):
    for client in (world.as_ada, billing):
        assert client.post(EVALUATIONS, FIG2).status_code == 200


def test_kubernetes_quantities_and_units_are_converted_exactly(operator):
    document = {
        "resources": [{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"}],
        "servers": [{"capacity": {"cpu": "4000m", "memory": "8192Mi"}}],
        "tenants": [{"name": "u"}],
        "workloads": [{"tenant": "u", "name": "w", "demand": {"cpu": "500m", "memory": "1Gi"}}],
        "policy": {"name": "drfh"},
        "include": ["placements"],
    }
    answer = operator.post(EVALUATIONS, document).json()
    assert answer["allocations"][0]["tasks"] == pytest.approx(8, rel=1e-12)
    assert answer["placements"][0]["server"] == "server-0001"


@pytest.mark.parametrize("missing", ["servers", "tenants", "workloads"])
def test_what_the_contract_does_not_require_may_be_left_out(missing, operator):
    document = {name: value for name, value in FIG2.items() if name != missing}
    if missing == "tenants":
        document["workloads"] = []
    response = operator.post(EVALUATIONS, document)
    assert response.status_code == 200, response.content
    assert all(row["tasks"] == 0 for row in response.json()["allocations"])


BAD = [
    ("/policy/name", "no-such-policy", 422, "policy.unknown"),
    ("/policy/mode", "quantum", 422, "policy.mode"),
    ("/policy/options", {"x": 1}, 422, "policy.options"),
    ("/policy", {}, 422, "field.missing"),
    ("/resources", [], 422, "resource.none"),
    ("/resources", ["CPU"], 422, "resource.name"),
    ("/resources", "cpu", 422, "field.type"),
    ("/colour", "red", 400, "field.unknown"),
    ("/workloads/0/colour", "red", 400, "field.unknown"),
    ("/workloads/0/tenant", "nobody", 422, "tenant.unknown"),
    ("/workloads/0/demand", {}, 422, "demand.zero"),
    ("/workloads/0/demand/cpu", -1, 422, "quantity.negative"),
    ("/workloads/0/demand/cpu", 1e12, 422, "quantity.too_large"),
    ("/workloads/0/demand/cpu", "x", 422, "quantity.syntax"),
    ("/workloads/0/demand/cpu", "1_000", 422, "quantity.syntax"),
    ("/workloads/0/demand/cpu", None, 422, "quantity.type"),
    ("/workloads/0/demand/gpu", 1, 422, "demand.unknown_resource"),
    ("/workloads/0/tasks", 1.5, 422, "field.type"),
    ("/workloads/0/tasks", -1, 422, "tasks.not_whole"),
    ("/workloads/0/tasks", 10**30, 422, "number.too_large"),
    ("/workloads/0", [], 422, "field.type"),
    ("/workloads/1", FIG2["workloads"][0], 422, "workload.duplicate"),
    ("/workloads", {}, 422, "field.type"),
    ("/tenants/0/weight", 0, 422, "weight.not_positive"),
    ("/tenants/0/weight", -1, 422, "weight.not_positive"),
    ("/tenants/0/weight", True, 422, "field.type"),
    ("/tenants", [{"name": "u1"}, {"name": "u2"}, {"name": "u1"}], 422, "tenant.duplicate"),
    ("/servers/0/count", 0, 422, "server.count"),
    ("/servers/0/count", 2**20, 413, "evaluation.too_large"),
    ("/servers/0/count", "2", 422, "field.type"),
    ("/servers/0/contributed_by", "nobody", 422, "tenant.unknown"),
    ("/servers/0/labels", {"a": 1}, 422, "field.type"),
    ("/include", ["everything"], 422, "include.unknown"),
    ("/weights", "equal", 422, "weights.unknown"),
]


@pytest.mark.parametrize(("pointer", "value", "status", "expected"), BAD)
def test_a_bad_problem_is_refused_with_its_pointer(pointer, value, status, expected, operator):
    response = operator.post(EVALUATIONS, changed(pointer, value))
    assert code(response) == (status, expected)
    told = response.json()["errors"][0]["pointer"]
    assert told.startswith(pointer) or pointer.startswith(told) or pointer == "/resources"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"[]", (422, "field.type")),
        (b"{}", (422, "field.missing")),
        (
            b'{"resources": ["cpu"], "policy": {"name": "drfh"}, "servers": NaN}',
            (400, "json.number"),
        ),
        (b'{"resources": ["cpu", "cpu"], "policy": {"name": "drfh"}}', (422, "resource.duplicate")),
    ],
)
def test_what_is_no_problem_at_all_is_refused(body, expected, operator):
    assert code(operator.post(EVALUATIONS, body)) == expected


def test_many_bad_quantities_are_named_at_once(operator):
    document = changed("/workloads/0/demand", {"cpu": "x", "memory": -1})
    response = operator.post(EVALUATIONS, document)
    pointers = [error["pointer"] for error in response.json()["errors"]]
    assert pointers == ["/workloads/0/demand/cpu", "/workloads/0/demand/memory"]


@pytest.mark.parametrize(
    ("field", "count"), [("tenants", 2_001), ("workloads", 5_001), ("servers", 1_001)]
)
def test_an_oversized_problem_is_refused(field, count, operator):
    rows: dict[str, Callable[[int], dict[str, Any]]] = {
        "tenants": lambda n: {"name": f"t{n}"},
        "workloads": lambda n: {"tenant": "u1", "name": f"w{n}", "demand": {"cpu": 1}},
        "servers": lambda n: {"name": f"s{n}", "capacity": {"cpu": n + 1}},
    }
    document = {**FIG2, field: [rows[field](number) for number in range(count)]}
    response = operator.post(EVALUATIONS, document)
    assert code(response) == (413, "evaluation.too_large")
    assert response.json()["errors"][0]["pointer"] == f"/{field}"


@pytest.mark.parametrize("path", [EVALUATIONS, "/api/v1/comparisons/"])
def test_a_long_body_is_refused_for_its_size_before_it_is_read_strictly(path, operator):
    """A name that appears twice is for the strict reader to see, which a glance spares."""
    servers = [{"name": f"s{n}" * 200, "capacity": {"cpu": n + 1}} for n in range(3_000)]
    problem = json.dumps({**FIG2, "servers": servers})
    twice = problem[:-1] + ', "tenants": []}'
    body = twice if path == EVALUATIONS else f'{{"policies": ["drfh"], "input": {twice}}}'
    assert len(body) > 2**20
    assert code(operator.post(path, body.encode())) == (413, "evaluation.too_large")
    small = body.replace("capacity", "size")  # one kind of server, as far as a glance tells
    assert code(operator.post(path, small.encode())) == (400, "json.duplicate")


def test_demands_far_beyond_a_server_are_answered(operator):
    document = changed("/workloads/0/demand", {"cpu": 2e9, "memory": 1e9})
    response = operator.post(EVALUATIONS, document)
    assert response.status_code in (200, 422)
    if response.status_code == 200:
        assert all(row["tasks"] >= 0 for row in response.json()["allocations"])


def test_a_policy_that_stops_at_its_limit_is_a_timeout():
    """Policies stop before the child is killed; for the caller both are the same."""
    with pytest.raises(Unavailable) as caught:
        evaluations.answer_document(long_evaluation(), seconds=1)
    assert (caught.value.code, caught.value.retry_after) == ("evaluation.timeout", 30)


def test_a_timeout_is_503_with_retry_after(operator, monkeypatch):
    def slow(document):
        raise Unavailable("too long", code="evaluation.timeout", retry_after=30)

    monkeypatch.setattr("api.v1.evaluations.evaluate", slow)
    response = operator.post(EVALUATIONS, FIG2)
    assert code(response) == (503, "evaluation.timeout")
    assert response["Retry-After"] == "30"


@pytest.mark.parametrize("places", [2, 5])
def test_of_many_at_once_a_caller_has_as_many_places_as_the_settings_say(settings, places):
    settings.ENVIRONMENT = dataclasses.replace(settings.ENVIRONMENT, evaluations_at_once=places)
    key = uuid4()
    held = [limiter().evaluation(holder=str(key)) for _ in range(places + 1)]
    assert [place.__enter__() for place in held] == [True] * places + [False]
    for place in held:
        place.__exit__(None, None, None)
    with limiter().evaluation(holder=str(key)) as admitted:
        assert admitted


def test_without_a_place_it_is_429(operator, monkeypatch):
    monkeypatch.setattr("api.limiter.Limiter.evaluation", lambda *_, **__: nullcontext(False))
    response = operator.post(EVALUATIONS, FIG2)
    assert code(response) == (429, "evaluation.too_many")
    assert response["Retry-After"] == "1"


def test_a_tenant_has_its_places_by_all_of_its_keys_together(world):
    other_key = factories.client("tenant", world.ada)
    with limiter().evaluation(holder="tenant:ada"), limiter().evaluation(holder="tenant:ada"):
        for client in (world.as_ada, other_key):
            assert code(client.post(EVALUATIONS, FIG2)) == (429, "evaluation.too_many")
        assert world.as_bob.post(EVALUATIONS, FIG2).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_of_several_keys_at_once_as_many_are_answered_as_a_process_has_places():
    """The others are told at once, not when a place is free."""
    clients = [factories.client() for _ in range(4)]
    assert clients[0].post(EVALUATIONS, FIG2).status_code == 200  # the children have started
    barrier = Barrier(5)
    held = [evaluations._places.acquire(blocking=False) for _ in range(evaluations.PLACES)]
    assert held == [True] * evaluations.PLACES
    try:
        began = time.monotonic()
        refused = [code(client.post(EVALUATIONS, FIG2)) for client in clients]
        assert time.monotonic() - began < 2
        assert set(refused) == {(503, "evaluation.busy")}
    finally:
        for _ in held:
            evaluations._places.release()

    def ask(client):
        barrier.wait()
        return client.post(EVALUATIONS, FIG2)

    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(ask, client) for client in clients]
        barrier.wait()
        answers = [each.result() for each in asked]
    statuses = [response.status_code for response in answers]
    assert statuses.count(200) >= evaluations.PLACES
    assert set(statuses) <= {200, 503}
    refusals = [response for response in answers if response.status_code == 503]
    assert all(response["Retry-After"] == "2" for response in refusals)
    assert len({response.content for response in answers if response.status_code == 200}) == 1


def test_options_beyond_every_number_are_refused_with_their_place(operator):
    for value in (b"1e30", b"-1e30", b"1e-30", b"1e300"):
        body = b"""{"policy": {"name": "tda", "options": {"period_seconds": %s}},
            "resources": [{"name": "cpu", "unit": "core"}], "tenants": [{"name": "a"}],
            "servers": [{"name": "s", "capacity": {"cpu": 4}}],
            "workloads": [{"tenant": "a", "name": "w", "demand": {"cpu": 1}}]}"""
        answer = operator.post("/api/v1/evaluations/", body % value)
        assert (answer.status_code, answer.json()["code"]) == (422, "policy.options"), answer.json()
        assert answer.json()["errors"][0]["pointer"] == "/policy/options/period_seconds"
