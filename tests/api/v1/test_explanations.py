"""Explanations over HTTP: for the tenant itself, without a word of the others."""

import pytest

from allocator_service.allocation.what_if import counterfactuals
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def decided(world):
    world.run = factories.decision(world.lab)
    world.path = f"/api/v1/runs/{world.run.pk}/explanation/"
    return world


def test_labels_of_a_server_that_would_help_are_words():
    document = {"resources": [{"name": "cpu", "unit": "core"}], "servers": []}
    labels = {"zone": "a", "disk": ["ssd", "nvme"]}
    words, _, _ = counterfactuals._with_server(document, "ada", {"cpu": 1.0}, labels)
    assert "labelled zone=a, disk=ssd, contributed by ada" in words


def test_a_tenant_is_told_why(decided, operator):
    told = decided.as_ada.get(f"{decided.path}ada/").json()
    assert told["weighted_share"] == pytest.approx(5 / 7)
    assert told["workloads"] == [
        {"workload": "analysis", "limited_by": "resource:cpu", "budget": None,
         "detail": "All of cpu is used up on the servers it may run on."}
    ]  # fmt: skip
    assert told["binding"][0]["resource"] == "cpu"
    assert told["binding"][0]["price"] > 0
    (counterfactual,) = told["counterfactuals"]
    assert counterfactual["tasks_after"] > counterfactual["tasks_before"]
    assert told["sentence"].startswith("ada runs 10 tasks of analysis")
    assert operator.get(f"{decided.path}ada/").json()["share"] == told["share"]


def test_no_word_of_another_tenant_is_in_it(decided):
    text = decided.as_ada.get(f"{decided.path}ada/").content.decode()
    for word in ("bob", "simulation", "high-cpu"):
        assert word not in text


def test_another_tenants_explanation_is_absent_as_an_unknown_tenants(decided):
    foreign = decided.as_ada.get(f"{decided.path}bob/")
    unknown = decided.as_ada.get(f"{decided.path}nobody/")
    malformed = decided.as_ada.get(f"{decided.path}No_Slug/")
    assert foreign.status_code == unknown.status_code == malformed.status_code == 404
    for answer in (unknown, malformed):
        assert answer.json()["code"] == foreign.json()["code"]
        assert answer.json()["detail"] == foreign.json()["detail"]


def test_a_tenant_without_workloads_has_nothing_explained(decided, operator):
    factories.tenant("idle")
    assert operator.get(f"{decided.path}idle/").status_code == 404
