"""Decisions as the limits of schedulers, over REST."""

import pytest
import yaml
from django.db import connection
from django.test.utils import CaptureQueriesContext

from allocator_service.core.clock import utc_now
from allocator_service.enforcement.rendering.targets import TARGETS
from allocator_service.pools.member_services import member_put
from api.v1 import renderings
from tests import factories

pytestmark = pytest.mark.django_db(transaction=True)

RENDERINGS = "/api/v1/pools/lab/decision/renderings/"
SLURM = f"{RENDERINGS}slurm/"


@pytest.fixture
def decided(world):
    """DRFH Fig. 2, decided: ada has 2 CPUs and 10 GiB, bob 10 CPUs and 2 GiB."""
    return factories.decision(world.lab)


def test_without_a_decision_there_is_nothing_to_render(world, operator):
    answer = operator.get(SLURM)
    assert (answer.status_code, answer.json()["code"]) == (404, "decision.none")


def test_a_rendering_says_decided_rendered_and_lost_per_tenant(world, decided, operator):
    document = operator.get(SLURM).json()
    assert (document["pool"], document["run"], document["generation"]) == (
        "lab",
        str(decided.pk),
        decided.generation,
    )
    assert (document["policy"], document["mode"], document["target"]) == (
        "drfh",
        "divisible",
        "slurm",
    )
    assert document["units"] == {"cpu": "1 CPU", "memory": "1 MiB"}
    assert document["next_boundary"] is None
    ada, bob = document["tenants"]
    assert (ada["tenant"], ada["rendered"]) == ("ada", {"cpu": 2, "memory": 10240})
    assert (bob["tenant"], bob["rendered"]) == ("bob", {"cpu": 10, "memory": 2048})
    assert float(ada["decided"]["cpu"]) == pytest.approx(2)
    assert (ada["notes"], bob["notes"]) == ([], [])
    assert [each["limits"] for each in document["objects"]] == [
        {"cpu": 2, "mem": 10240},
        {"cpu": 10, "mem": 2048},
    ]


def test_classes_are_the_values_of_the_label_that_is_asked_for(world, decided, operator):
    factories.server(world.lab, "third", 4, 4, None, labels={"rack": "r1", "partition": "p"})
    factories.decision(world.lab)
    of_rack = operator.get(f"{SLURM}?class_label=rack").json()
    assert of_rack["class_label"] == "rack"
    assert {each.get("partition") for each in of_rack["objects"]} == {None, "r1"}
    assert {each.get("partition") for each in operator.get(SLURM).json()["objects"]} == {None, "p"}


def test_identical_servers_of_two_classes_are_told_apart(operator):
    """A divisible decision merges them; each class gets its servers' part all the same."""
    lab, ada = factories.pool("lab"), factories.tenant("ada")
    factories.server(lab, "b", 4, 8, None, labels={"partition": "big"}, count=3)
    factories.server(lab, "s", 4, 8, None, labels={"partition": "small"})
    factories.server(lab, "x", 4, 8, None)
    factories.workload(lab, "w", 1, 1, ada)
    factories.decision(lab)
    objects = operator.get(SLURM).json()["objects"]
    limits = {each.get("partition"): each["limits"]["cpu"] for each in objects}
    assert limits == {None: 20, "big": 12, "small": 4}
    assert operator.get(SLURM).json()["tenants"][0]["notes"] == [
        "A part is on servers without the label partition: it is enforced in the total only."
    ]


def test_a_rendering_of_another_release_is_not_known(decided, operator, monkeypatch):
    """It may have other objects, and agents would keep the former ones until the next decision."""
    tag = operator.get(SLURM)["ETag"]
    monkeypatch.setattr(renderings, "__version__", "0.0.1")
    assert operator.get(SLURM, If_None_Match=tag).status_code == 200


def test_a_rendering_that_is_known_answers_304(world, decided, operator):
    answer = operator.get(SLURM)
    tag = answer["ETag"]
    assert str(decided.pk) in tag
    known = operator.get(SLURM, If_None_Match=tag)
    assert (known.status_code, known.content, known["ETag"]) == (304, b"", tag)
    assert operator.get(SLURM, If_None_Match=f'"other", {tag}').status_code == 304
    assert operator.get(SLURM, If_None_Match='"other"').status_code == 200
    assert operator.get(f"{SLURM}?class_label=rack", If_None_Match=tag).status_code == 200
    assert operator.get(SLURM, If_None_Match=tag, Accept="text/plain").status_code == 200
    member_put(
        pool=world.lab,
        tenant=factories.tenant("carl"),
        weight=1,
        best_effort=False,
        version=None,
        now=utc_now(),
    )
    again = operator.get(SLURM, If_None_Match=tag)
    assert again.status_code == 200
    assert again.json()["objects"][-1]["limits"] == {"cpu": 0, "mem": 0}


def test_each_target_has_its_own_language(decided, operator):
    script = operator.get(SLURM, Accept="text/plain")
    assert script["Content-Type"] == "text/plain; charset=utf-8"
    assert script.content.startswith(b"#!/bin/sh\n# allocator pool=lab run=")
    for target in sorted(TARGETS.keys() - {"slurm"}):
        path = f"{RENDERINGS}{target}/"
        stream = operator.get(path, Accept="application/yaml")
        assert stream["Content-Type"] == "application/yaml"
        assert list(yaml.safe_load_all(stream.content)) == operator.get(path).json()["objects"]
        assert operator.get(path, Accept="text/plain").status_code == 406
    assert operator.get(SLURM, Accept="application/yaml").status_code == 406
    assert operator.get(f"{RENDERINGS}kueue/?format=yaml").status_code == 200


def test_what_cannot_be_asked_for_is_refused(decided, operator):
    unknown = operator.get(f"{RENDERINGS}mesos/")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "rendering.target")
    for query in ("quota=soft", "quota=some", "class_label=", "label=x"):
        assert operator.get(f"{SLURM}?{query}").status_code == 400, query


def test_a_policy_that_divides_time_is_rendered_for_slurm_alone(operator):
    lab = factories.pool("lab", policy="tda", options={"period_seconds": 4100})
    ada, bob = factories.tenant("ada"), factories.tenant("bob")
    factories.server(lab, "s1", 15, 15, ada)
    factories.workload(lab, "wide", 5, 2, ada)
    factories.workload(lab, "tall", 3, 3.5, bob)
    run = factories.decision(lab)
    document = operator.get(SLURM).json()
    assert document["next_boundary"] > document["rendered_from"]
    reserved = [each for each in document["objects"] if each["kind"] == "reservation"]
    first = min(reserved, key=lambda each: each["start"])
    assert first["start"] == run.effective_from.isoformat().replace("+00:00", "Z")
    for target in TARGETS.keys() - {"slurm"}:
        answer = operator.get(f"{RENDERINGS}{target}/")
        assert (answer.status_code, answer.json()["code"]) == (409, "rendering.unsupported")


def test_a_long_term_policy_says_when_it_decides_next(operator):
    lab = factories.pool("lab", policy="h-mrf", decision_interval="PT1H")
    ada = factories.tenant("ada")
    factories.server(lab, "s1", 8, 8, ada)
    factories.workload(lab, "w", 2, 1, ada)
    factories.decision(lab)
    document = operator.get(SLURM).json()
    assert document["next_boundary"].endswith(":00:00Z")
    assert document["tenants"][0]["rendered"] == {"cpu": 8, "memory": 4096}


def test_a_rendering_asks_as_often_for_many_tenants_as_for_one(operator):
    lab = factories.pool("lab")
    factories.server(lab, "s", 64, 64, None, labels={"partition": "p"}, count=4)

    def asked():
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert operator.get(SLURM).status_code == 200
        return len(queries)

    factories.workload(lab, "w", 1, 1, factories.tenant("first"))
    factories.decision(lab)
    asked()  # the first of a minute notes that the key was used
    one = asked()
    for index in range(20):
        factories.workload(lab, "w", 1, 1, factories.tenant(f"t{index}"))
    factories.decision(lab)
    assert asked() == one <= 15


def test_a_soft_rendering_reserves_what_is_guaranteed(world, operator):
    """The queue of a guaranteed tenant lends the rest of its decision, another one lends all."""
    path = "/api/v1/pools/lab/members/ada/"
    body = {"weight": 1, "guarantee": [{"amount": {"cpu": 1}}]}
    assert operator.put(path, body, If_Match=operator.get(path)["ETag"]).status_code == 200
    run = factories.decision(world.lab)
    assert run.allocations.get(tenant=world.ada).floor == pytest.approx(5)

    def unlent(quota):
        objects = operator.get(f"{RENDERINGS}kueue/?quota={quota}").json()["objects"]
        return {
            queue["metadata"]["name"]: [
                quantity(row["nominalQuota"]) - quantity(row["lendingLimit"])
                for row in queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
            ]
            for queue in objects
            if queue["kind"] == "ClusterQueue" and "cohortName" in queue["spec"]
        }

    assert unlent("soft") == {"ada": [1, 5 * 2**30], "bob": [0, 0]}
    assert unlent("hard") == {}
    queues = operator.get(f"{RENDERINGS}volcano/?quota=soft").json()["objects"]
    assert [queue["spec"]["guarantee"]["resource"]["cpu"] for queue in queues] == ["1", "0"]
    assert "guarantee" not in operator.get(f"{RENDERINGS}volcano/").json()["objects"][0]["spec"]


def quantity(text):
    return float(text.removesuffix("m")) / 1000 if text.endswith("m") else float(text)
