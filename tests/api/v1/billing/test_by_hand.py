"""What operators add: credit notes, budgets and service units."""

from datetime import timedelta

import pytest

from allocator_service.billing.models import CreditNote
from tests.api.v1.billing.conftest import MARCH, POOL
from tests.integration.billing.conftest import at

pytestmark = pytest.mark.django_db


def test_credit_notes(march, operator, billing):
    path = f"{POOL}/credit-notes/"
    body = {"tenant": "a", "amount": "5.00", "reason": "a day of outage"}
    note = operator.post(path, body, Idempotency_Key="k")
    assert operator.post(path, body, Idempotency_Key="k")["Idempotency-Replayed"] == "true"
    assert (note.status_code, note.json()["amount"], note.json()["month"]) == (201, "5.00", MARCH)
    assert billing.get(f"{POOL}/statements/{MARCH}/a/").json()["totals"]["billed"] == "97.03"
    back = f"{path}{note.json()['id']}/reverse/"
    assert operator.post(back, {"reason": "there was none"}).json()["amount"] == "-5.00"
    twice = operator.post(back, {"reason": "again"})
    assert (twice.status_code, twice.json()["code"]) == (409, "credit_note.reversed")
    for wrong in ({"amount": "0"}, {"amount": "0.001"}, {"tenant": "nobody"}, {"reason": ""}):
        assert operator.post(path, body | wrong).status_code == 422
    (error,) = operator.post(path, body | {"amount": "-5"}).json()["errors"]
    assert error["detail"] == "A credit note's amount is at least 0; -5 is negative."
    assert CreditNote.objects.count() == 2
    assert billing.get(f"{POOL}/statements/{MARCH}/a/").json()["totals"]["billed"] == "102.03"


def test_budgets(march, operator):
    path = f"{POOL}/budgets/"
    made = operator.post(path, {"tenant": "a", "amount": "100"})
    assert (made.status_code, made.json()["thresholds"]) == (201, [50, 80, 100])
    assert operator.post(path, {"tenant": "a", "amount": "1"}).json()["code"] == "budget.exists"
    for wrong in ({"amount": "0"}, {"thresholds": [0]}, {"resource": "gpu"}, {"tenant": "nobody"}):
        body = {"tenant": "b", "amount": "1"} | wrong
        refused = operator.post(path, body)
        assert refused.status_code == 422, wrong
        pointer = refused.json()["errors"][0]["pointer"]
        assert pointer.split("/")[1] == next(iter(wrong))
    one = made["Location"]
    assert operator.patch(one, {"amount": "2"}).status_code == 428
    assert operator.patch(one, {"amount": "200"}, If_Match='"v1"').json()["amount"] == "200"
    assert operator.delete(one, If_Match='"v2"').status_code == 204
    assert operator.get(one).json()["code"] == "budget.not_found"


def test_service_units(march, operator, clock):
    path = f"{POOL}/service-units/"
    made = operator.post(path, {"tenant": "a", "units": "1000"})
    assert (made.status_code, made.json()["balance"]) == (201, "1000")
    assert operator.post(path, {"tenant": "a", "units": "0"}).json()["code"] == "units.amount"
    clock(at(3, 4) + timedelta(hours=1))
    assert operator.get(path).json()["results"][0]["granted"] == "1000"
