"""An Idempotency-Key: one effect, one answer, whoever asks how often and at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connection, transaction

from allocator_service.core.locks import Lock, try_lock_in_transaction
from allocator_service.core.models import IdempotencyClaim
from allocator_service.pools.models import RecomputeJob
from allocator_service.tenants.models import ApiKey, Tenant
from allocator_service.workloads.models import Workload
from tests import factories
from tests.api.v1.test_conventions import code

TENANT = {"slug": "new", "name": "New"}


def test_the_answer_stays_that_of_the_first_time(operator):
    operator.post("/api/v1/tenants/", TENANT, Idempotency_Key="k")
    operator.patch("/api/v1/tenants/new/", {"name": "Changed"}, If_Match='"v1"')
    again = operator.post("/api/v1/tenants/", TENANT, Idempotency_Key="k")
    assert (again.json()["name"], again["ETag"]) == ("New", '"v1"')


def test_a_bulk_request_and_an_action_are_replayed_too(world):
    path = "/api/v1/pools/lab/servers/"
    body = [{"name": "s", "capacity": {"cpu": 1}, "count": 3}]
    answers = [world.as_ada.post(path, body, Idempotency_Key="k") for _ in range(3)]
    assert len({response.content for response in answers}) == 1
    assert answers[2]["Pool-Generation"] == answers[0]["Pool-Generation"]
    assert world.lab.servers.filter(name__startswith="s-").count() == 3
    drain = f"{path}{world.ada_server.pk}/drain/"
    assert world.as_ada.post(drain, Idempotency_Key="k").status_code == 200
    assert world.as_ada.post(drain, Idempotency_Key="k")["Idempotency-Replayed"] == "true"


def test_a_key_is_one_of_its_holder_and_path(world, operator):
    other = factories.client("operator")
    assert operator.post("/api/v1/tenants/", TENANT, Idempotency_Key="k").status_code == 201
    taken = other.post("/api/v1/tenants/", TENANT, Idempotency_Key="k")
    assert code(taken) == (409, "tenant.exists")
    runs = operator.post("/api/v1/pools/lab/runs/", {}, Idempotency_Key="k")
    assert (runs.status_code, "Idempotency-Replayed" in runs) == (202, False)


@pytest.mark.parametrize("key", ["", " ", "a" * 256, "ä", "a\tb"])
def test_a_malformed_key_is_400(key, operator):
    response = operator.post("/api/v1/tenants/", TENANT, Idempotency_Key=key)
    assert code(response) == (400, "idempotency.syntax")
    assert not Tenant.objects.exists()


def test_a_key_of_255_characters_is_taken(operator):
    for _ in range(2):
        response = operator.post("/api/v1/tenants/", TENANT, Idempotency_Key="~" * 255)
        assert response.status_code == 201


def test_keys_are_ignored_where_nothing_is_written(world, operator):
    document = {"resources": ["cpu"], "policy": {"name": "no-such-policy"}}
    for _ in range(2):
        response = operator.post("/api/v1/evaluations/", document, Idempotency_Key="k")
        assert code(response) == (422, "policy.unknown")
    assert not IdempotencyClaim.objects.exists()


def at_once(count: int, action: Callable[[int], Any]) -> list[Any]:
    barrier = Barrier(count)

    def run(number: int) -> Any:
        barrier.wait()
        try:
            return action(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(run, range(count)))


@pytest.mark.django_db(transaction=True)
def test_of_many_twins_one_has_the_effect(world):
    path = "/api/v1/pools/lab/workloads/"

    def submit(number):
        body = {"name": f"w{number % 4}", "demand": {"cpu": 1}}
        return world.as_ada.post(path, body, Idempotency_Key=f"k{number % 4}")

    answers = at_once(12, submit)
    assert {response.status_code for response in answers} <= {201, 409}
    for response in answers:
        if response.status_code == 409:
            assert (code(response), response["Retry-After"]) == (
                (409, "idempotency.in_flight"),
                "1",
            )
    assert Workload.objects.filter(name__startswith="w", pool=world.lab).count() == 4
    ids = {response.json()["id"] for response in answers if response.status_code == 201}
    assert len(ids) == 4
    assert IdempotencyClaim.objects.count() == 4


@pytest.mark.django_db(transaction=True)
def test_a_twin_in_flight_is_told_to_come_back(operator):
    holder = ApiKey.objects.get().pk
    name = f"{holder}\nPOST\n/api/v1/tenants/\nk"
    with transaction.atomic():
        assert try_lock_in_transaction(Lock.IDEMPOTENCY, name)
        (response,) = at_once(
            1, lambda _: operator.post("/api/v1/tenants/", TENANT, Idempotency_Key="k")
        )
    assert code(response) == (409, "idempotency.in_flight")
    assert response["Retry-After"] == "1"
    assert not Tenant.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_even_without_the_lock_the_claim_lets_one_effect_through(world, operator, monkeypatch):
    monkeypatch.setattr("api.contract.idempotency.try_lock_in_transaction", lambda *_: True)
    before = RecomputeJob.objects.get(pool=world.lab).wanted
    path = "/api/v1/pools/lab/runs/"
    answers = at_once(6, lambda _: operator.post(path, {}, Idempotency_Key="k"))
    assert {response.status_code for response in answers} <= {202, 409}
    assert RecomputeJob.objects.get(pool=world.lab).wanted == before + 1
    assert IdempotencyClaim.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_without_a_key_every_twin_has_its_effect(world, operator):
    """The negative control of the race above: it does tell one effect from many."""
    before = RecomputeJob.objects.get(pool=world.lab).wanted
    at_once(6, lambda _: operator.post("/api/v1/pools/lab/runs/", {}))
    assert RecomputeJob.objects.get(pool=world.lab).wanted == before + 6
