"""A decision's proof, taken home: one file that the verifier takes, with pseudonyms for a tenant."""

import hashlib
import json
import re
import zlib

import pytest

from allocator_service.allocation.models import Allocation as AllocationRow
from allocator_service.allocation.models import Certificate
from allocator_service.pools.models import GroupTerms, MembershipTerms, Pool
from policies import policies_available
from policies.__main__ import main
from tests.factories import (
    client,
    decision,
    group,
    limit,
    member,
    pool,
    server,
    tenant,
    workload,
)

pytestmark = pytest.mark.django_db(transaction=True)

CHOICES = [(info.name, mode) for info in policies_available() for mode in info.modes]


def decided(name, mode, **options):
    lab = pool(policy=name, mode=mode, transparent=True, **options)
    ada, bob = tenant("ada"), tenant("bob")
    server(lab, "high-memory", 2, 12, ada)
    server(lab, "secret-rack", 12, 2, bob, labels={"room": "cellar"})
    server(lab, "node", 3, 3, None, count=3)
    workload(lab, "analysis", 0.2, 1, ada, tasks=7)
    workload(lab, "hidden-project", 1, 0.2, bob)
    return f"/api/v1/runs/{decision(lab).pk}/proof/", ada


def verified(proof, folder):
    """What `python -m policies verify FILE` ends with: 0 is valid, 1 is not."""
    file = folder / "proof.json"
    file.write_text(json.dumps(proof))
    return main(["verify", str(file)])


@pytest.mark.parametrize(("name", "mode"), CHOICES)
def test_everybodys_copy_verifies_and_a_forged_one_does_not(name, mode, tmp_path):
    path, ada = decided(name, mode)
    mine = client("tenant", ada).get(path)
    for answer in (client().get(path), client("billing").get(path), mine):
        assert answer.status_code == 200, answer.content
        proof = answer.json()
        assert verified(proof, tmp_path) == 0
        for part, digest in proof["digests"].items():
            text = json.dumps(
                proof[part], sort_keys=True, separators=(",", ":"), ensure_ascii=False
            )
            assert hashlib.sha256(text.encode()).hexdigest() == digest
    text = mine.content.decode()
    assert not [word for word in ("bob", "secret-rack", "hidden", "cellar") if word in text]
    proof["answer"]["allocations"][1]["tasks"] += 1
    assert verified(proof, tmp_path) == 1


@pytest.mark.parametrize("mode", ["divisible", "indivisible"])
def test_a_copy_with_limits_verifies_under_pseudonyms(mode, tmp_path):
    lab = pool(policy="drfh", mode=mode, transparent=True)
    ada, bob = tenant("ada"), tenant("bob")
    server(lab, "mine", 8, 8, ada)
    server(lab, "secret-rack", 8, 8, bob, labels={"room": "cellar"})
    workload(lab, "analysis", 1, 1, ada, tasks=4)
    workload(lab, "hidden-project", 1, 1, bob)
    group(lab, "hidden-group")
    member(lab, bob, "hidden-group")
    limit(lab, "hidden-group", {"cpu": 2}, {"room": ["cellar"]})
    limit(lab, "hidden-group", {"cpu": 3})
    run = decision(lab)
    assert run.allocations.get(tenant=bob).limited_by == "limit:group:hidden-group"
    for caller in (client(), client("tenant", ada)):
        proof = caller.get(f"/api/v1/runs/{run.pk}/proof/")
        assert proof.status_code == 200
        assert verified(proof.json(), tmp_path) == 0
    assert not re.search("bob|secret|hidden|cellar", proof.content.decode())


@pytest.mark.parametrize("mode", ["divisible", "indivisible"])
def test_a_copy_with_gangs_verifies_under_pseudonyms(mode, tmp_path):
    lab = pool(policy="drfh", mode=mode, transparent=True)
    ada, bob = tenant("ada"), tenant("bob")
    for number, rack in enumerate(("cellar-1", "cellar-1", "cellar-2")):
        server(lab, f"secret-{number}", 8, 8, bob, labels={"hidden-rack": rack})
    server(lab, "mine", 8, 8, ada, labels={"zone": "east"})
    pieces = [
        {"count": 2, "demand": {"cpu": 3, "memory": 3}},
        {"count": 1, "demand": {"cpu": 1, "memory": 2}},
    ][: 2 if mode == "indivisible" else 1]
    gang = {"tenant": "bob", "tasks": 3, "pieces": pieces, "together": "hidden-rack"}
    bodies = (
        {"tenant": "ada", "name": "analysis", "pieces": pieces, "together": "zone"},
        {**gang, "name": "hidden-first", "per_server": 2},
        {**gang, "name": "hidden-second", "per_server": 1, "at_least": 2},
    )
    for body in bodies:
        answer = client().post("/api/v1/pools/lab/workloads/", body)
        assert answer.status_code == 201, answer.json()
    run = decision(lab)
    for caller in (client(), client("tenant", ada)):
        proof = caller.get(f"/api/v1/runs/{run.pk}/proof/")
        assert proof.status_code == 200
        assert verified(proof.json(), tmp_path) == 0
    assert not re.search("bob|secret|hidden|cellar", proof.content.decode())
    assert "zone" in proof.content.decode()


@pytest.mark.parametrize("mode", ["divisible", "indivisible"])
def test_a_copy_with_guarantees_verifies_under_pseudonyms(mode, tmp_path):
    lab = pool(policy="drfh", mode=mode, transparent=True)
    ada, bob = tenant("ada"), tenant("bob")
    server(lab, "mine", 8, 8, ada)
    server(lab, "secret-rack", 8, 8, bob, labels={"room": "cellar"})
    workload(lab, "analysis", 1, 1, ada)
    workload(lab, "hidden-project", 1, 1, bob)
    workload(lab, "hidden-test", 1, 1, bob)
    group(lab, "hidden-group")
    member(lab, bob, "hidden-group")
    where = {"room": ["cellar"]}
    GroupTerms.objects.filter(group__slug="hidden-group", end=None).update(
        guarantee=[{"where": {}, "amount": {"cpu": "4"}}],
        limit=[{"where": {}, "amount": {"cpu": "9"}}],
    )
    MembershipTerms.objects.filter(membership__tenant=bob, end=None).update(
        guarantee=[{"where": where, "amount": {"cpu": "6"}}],
        lend=[{"where": where, "amount": {"cpu": "2"}}],
        own_servers="yes",
    )
    run = decision(lab)
    floors = [row.floor or 0 for row in run.allocations.filter(tenant=bob)]
    assert sum(floors) == pytest.approx(8)
    for caller in (client(), client("tenant", ada)):
        proof = caller.get(f"/api/v1/runs/{run.pk}/proof/")
        assert proof.status_code == 200
        assert len(proof.json()["answer"]["floors"]["pools"]) == 3
        assert verified(proof.json(), tmp_path) == 0
    assert not re.search("bob|secret|hidden|cellar", proof.content.decode())
    assert "cellar" in client("tenant", bob).get(f"/api/v1/runs/{run.pk}/input/").content.decode()


@pytest.mark.parametrize("mode", ["divisible", "indivisible"])
def test_steps_of_a_copy_have_pseudonyms_in_reasons(mode, tmp_path):
    """Steps have names of tenants, workloads, servers and labels, and of groups in reasons."""
    lab = pool(policy="drfh", mode=mode, transparent=True, own_servers=True)
    ada, bob, cleo = tenant("ada"), tenant("bob"), tenant("cleo-hidden")
    server(lab, "mine", 8, 8, ada)
    server(lab, "secret-rack", 8, 8, bob, labels={"room": "cellar"})
    group(lab, "hidden-group")
    member(lab, bob, "hidden-group")
    member(lab, cleo, "hidden-group")
    workload(lab, "analysis", 1, 1, ada, tasks=4)
    workload(lab, "hidden-project", 1, 1, bob)
    workload(lab, "hidden-other", 1, 2, cleo)
    limit(lab, "hidden-group", {"cpu": 9})
    operator = client()
    path = "/api/v1/pools/lab/groups/hidden-group/"
    rows = [{"where": {"room": ["cellar"]}, "amount": {"cpu": 6}}, {"amount": {"memory": 9}}]
    changed = operator.patch(path, {"guarantee": rows}, If_Match=operator.get(path)["ETag"])
    assert changed.status_code == 200, changed.content
    run = decision(lab)
    assert run.allocations.exclude(floor=None).count() == 3
    for caller in (operator, client("tenant", ada)):
        proof = caller.get(f"/api/v1/runs/{run.pk}/proof/")
        assert proof.status_code == 200
        assert verified(proof.json(), tmp_path) == 0
    assert not re.search("bob|secret|hidden|cellar", proof.content.decode())


@pytest.mark.parametrize(("name", "mode"), CHOICES)
def test_a_later_decision_is_proven_with_what_ran_and_what_is_remembered(name, mode, tmp_path):
    _, ada = decided(name, mode)
    lab = Pool.objects.get(slug="lab")
    workload(lab, "later", 0.3, 0.3, ada, tasks=2)
    path = f"/api/v1/runs/{decision(lab).pk}/proof/"
    for caller in (client(), client("tenant", ada)):
        assert verified(caller.get(path).json(), tmp_path) == 0


def test_a_price_says_of_which_servers_it_is(tmp_path):
    path, _ = decided("drfh", "divisible")
    certificate = client().get(path).json()["answer"]["certificate"]
    assert certificate["servers"] == [["high-memory"], ["secret-rack"], ["node-0001"]]
    assert len(certificate["rounds"][0]["prices"]) == 3


def test_a_tenant_of_a_closed_pool_has_no_copy_and_nobody_one_of_a_pending_run(world, operator):
    run = decision(world.lab)
    assert world.as_ada.get(f"/api/v1/runs/{run.pk}/proof/").status_code == 404
    asked = operator.post("/api/v1/pools/lab/runs/", {"reason": "again"}).json()["id"]
    assert operator.get(f"/api/v1/runs/{asked}/proof/").status_code in (404, 409)


def damaged(run, part):
    """Change one part of what is stored of a decision so that it is none."""
    if part == "compression":
        Certificate.objects.filter(run=run).update(document=b"no zlib")
    elif part == "text":
        Certificate.objects.filter(run=run).update(document=zlib.compress(b"{"))
    elif part == "certificate":
        document = zlib.compress(b'{"rounds": [1], "frozen_in": []}')
        Certificate.objects.filter(run=run).update(document=document)
    else:
        AllocationRow.objects.filter(run=run, position=0).delete()


@pytest.mark.usefixtures("falsifiable")
@pytest.mark.parametrize("part", ["compression", "text", "certificate", "row"])
def test_what_is_stored_but_cannot_be_read_is_named(part):
    """The verdict says that it is not valid; the proof and the explanation are a conflict."""
    path, _ = decided("drfh", "divisible")
    run = path.split("/")[-3]
    damaged(run, part)
    verdict = client().post(f"/api/v1/runs/{run}/verify/").json()
    assert [check["name"] for check in verdict["checks"]] == ["readable"]
    assert verdict["valid"] is False
    for found in (path, f"/api/v1/runs/{run}/explanation/bob/"):
        answer = client().get(found)
        assert answer.status_code == 409, (found, answer.content)
        assert answer.json()["code"] == "run.unreadable"
        assert answer.json()["detail"] == verdict["checks"][0]["detail"]
