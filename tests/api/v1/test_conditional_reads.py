"""Conditional reads: an answer that the caller has is 304, and no 304 stands for a changed answer."""

from datetime import timedelta

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from allocator_service.core.clock import utc_now
from allocator_service.enforcement.rendering.targets import TARGETS
from tests import factories
from tests.api.v1.test_scopes import MATRIX

NOW = "2026-12-15T12:00:00+00:00"
POOL = "/api/v1/pools/<str:pool>/"
V1 = "/api/v1"
LAB = f"{V1}/pools/lab"
# Routes whose answers have a tag by the version of what they read.
TAGGED = {
    "pools/<str:pool>/",
    "pools/<str:pool>/members/",
    "pools/<str:pool>/groups/",
    "pools/<str:pool>/groups/<str:group>/history/",
    "pools/<str:pool>/servers/",
    "pools/<str:pool>/workloads/",
    "pools/<str:pool>/decision/",
    "pools/<str:pool>/allocations/",
    "pools/<str:pool>/placements/",
    "pools/<str:pool>/decision/renderings/<str:target>/",
}
VARIANTS = {
    "allocations": ("by=tenant", "limit=1"),
    "members": ("group=ml",),
    "workloads": ("state=withdrawn",),
    "servers": ("state=retired&format=csv",),
}

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def clock():
    with time_machine.travel(NOW, tick=False) as traveller:
        yield traveller


@pytest.fixture
def lab(clock, world, operator):
    """The world's pool with groups above its members, and a decision."""
    factories.group(world.lab, "ml")
    factories.group(world.lab, "deep", "ml")
    factories.member(world.lab, world.ada, "deep")
    factories.member(world.lab, world.bob, "ml")
    factories.decision(world.lab)
    return world


def callers(world):
    ml = world.lab.groups.get(slug="ml")
    return {
        "operator": factories.client("operator"),
        "bound": factories.client("operator", pool="lab"),
        "billing": factories.client("billing"),
        "agent": factories.client("agent", pool="lab"),
        "ada": world.as_ada,
        "bob": world.as_bob,
        "group": factories.client("group", group=ml),
    }


def paths(world):
    """Return every route of GET below a pool, by the path of the world's objects."""
    names = {
        "pool": "lab", "tenant": "ada", "group": "ml", "server": world.ada_server.pk,
        "workload": world.ada_workload.pk, "month": "2026-12", "target": "slurm",
        "credit_note": world.lab.pk, "budget": world.lab.pk,
    }  # fmt: skip
    found = {}
    for route, methods in MATRIX.items():
        if not route.startswith(POOL) or "GET" not in methods:
            continue
        path = route
        for name, value in names.items():
            path = path.replace(f"<str:{name}>", str(value))
        found[path] = route.removeprefix(f"{V1}/")
    return found


def content(answer):
    """Return an answer without the instants of its request."""
    if answer["Content-Type"] != "application/json":
        return answer.content
    document = answer.json()
    document.pop("at", None)
    return document


class Readers:
    """Callers with the answers that they have."""

    def __init__(self, world):
        self.callers = callers(world)
        self.paths = [f"{V1}/pools/", f"{V1}/policies/"]
        for path, route in paths(world).items():
            if route in TAGGED:
                self.paths.append(path)
                last = path.rstrip("/").rpartition("/")[2]
                self.paths += [f"{path}?{query}" for query in VARIANTS.get(last, ())]
        self.known = {}
        self.changed()

    def changed(self):
        """Return the paths that have changed, after asking each reader again with its tag."""
        changed, known = set(), {}
        for name, caller in self.callers.items():
            for path in self.paths:
                tag, before = self.known.get((name, path), (None, None))
                answer = caller.get(path, If_None_Match=tag) if tag else caller.get(path)
                if answer.status_code == 304:
                    plain = caller.get(path)
                    assert plain.status_code == 200, (name, path)
                    assert (answer.content, answer["ETag"], plain["ETag"]) == (b"", tag, tag)
                    assert content(plain) == before, (name, path)
                    known[name, path] = tag, before
                    continue
                if answer.status_code == 200:
                    known[name, path] = answer["ETag"], content(answer)
                else:
                    assert caller.get(path).status_code == answer.status_code, (name, path)
                _, after = known.get((name, path), (None, None))
                if tag and after != before:
                    changed.add(path)
        self.known = known
        return changed


def version(client, path):
    return client.get(path)["ETag"]


def test_routes_have_a_tag_or_answer_200_whatever_is_known(lab, operator):
    """Single objects have the version for If-Match, which says nothing of what else they show."""
    readers = callers(lab)
    for path, route in paths(lab).items():
        for name, caller in readers.items():
            answer = caller.get(path)
            if answer.status_code != 200:
                continue
            tag = answer.headers.get("ETag", "")
            known = caller.get(path, If_None_Match=tag or '"anything"')
            assert (known.status_code == 304) == (route in TAGGED), (name, path, tag)
            assert caller.get(path, If_None_Match='"other"').status_code == 200
            if tag.startswith("W/"):
                assert caller.get(path, If_None_Match=f'"x", {tag[2:]}').status_code == 304
    for path in (f"{V1}/pools/", f"{V1}/policies/"):
        assert operator.get(path, If_None_Match=version(operator, path)).status_code == 304


def changes(world, operator, clock):
    """Yield a name, a change of what answers show, and paths of which each must have changed."""
    lab = world.lab
    member, group = f"{LAB}/members/ada/", f"{LAB}/groups/deep/"
    server, workload = (
        f"{LAB}/servers/{world.ada_server.pk}/",
        f"{LAB}/workloads/{world.ada_workload.pk}/",
    )
    lists = {each: f"{LAB}/{each}/" for each in ("members", "groups", "servers", "workloads")}
    decided = {f"{LAB}/decision/"}

    def patch(path, body):
        def change():
            answer = operator.patch(path, body, If_Match=version(operator, path))
            assert answer.status_code == 200, answer.content

        return change

    def put(path, body):
        def change():
            answer = operator.put(path, body, If_Match=version(operator, path))
            assert answer.status_code == 200, answer.content

        return change

    def delete(path):
        def change():
            answer = operator.delete(path, If_Match=version(operator, path))
            assert answer.status_code == 204, answer.content

        return change

    def decide():
        factories.decision(lab)

    def pass_time(**amount):
        return lambda: clock.shift(timedelta(**amount))

    yield "nothing", lambda: None, set()
    yield "time", pass_time(minutes=5), set()
    yield "weight", put(member, {"weight": 3, "group": "deep"}), {lists["members"]}
    yield "decision", decide, decided
    yield "workload", lambda: factories.workload(lab, "late", 1, 1, world.ada), {lists["workloads"]}
    yield "decision with it", decide, {*decided, f"{LAB}/allocations/"}
    yield "name of a workload", patch(workload, {"name": "n"}), {f"{LAB}/allocations/"}
    yield "pause", patch(workload, {"state": "paused"}), {lists["workloads"]}
    yield "server", lambda: factories.server(lab, "s", 4, 4, world.bob), {lists["servers"]}
    yield "name of a server", patch(server, {"name": "renamed"}), {lists["servers"]}
    yield "drain", lambda: operator.post(f"{server}drain/", {}), {lists["servers"]}
    yield "name of a group", patch(group, {"name": "D"}), {lists["groups"]}
    yield "group moved", patch(group, {"parent": None}), {lists["groups"]}
    yield "decision of the new tree", decide, decided
    yield "transparent", patch(f"{LAB}/", {"transparent": True}), {f"{LAB}/", lists["members"]}
    yield "name of the pool", patch(f"{LAB}/", {"name": "L"}), {f"{LAB}/", f"{V1}/pools/"}
    yield "opaque", patch(f"{LAB}/", {"transparent": False}), {lists["members"]}
    dates = {"from": "2026-12-15T14:00:00Z", "to": "2026-12-15T20:00:00Z"}
    limit = [{"amount": {"cpu": 1}, **dates}]
    late = {"weight": 3, "group": "deep", "limit": limit}
    yield "limit", put(member, late), {lists["members"]}
    yield "decision before it", decide, decided
    yield "its begin", pass_time(hours=2), set()
    yield "decision under it", decide, decided
    yield "usage", lambda: used(world, operator), set()
    yield "report", lambda: reported(world, operator), set()
    yield "tenant's name", patch(f"{V1}/tenants/ada/", {"name": "A"}), set()
    yield "pool of others", lambda: factories.pool("third"), {f"{V1}/pools/"}
    yield "withdrawal", delete(workload), {lists["workloads"]}
    yield "move", put(f"{LAB}/members/bob/", {"group": None}), {lists["members"]}
    yield "decision without it", decide, decided
    yield "retired server", lambda: operator.post(f"{server}retire/", {}), {lists["servers"]}
    yield "own workloads end", lambda: [
        delete(f"{LAB}/workloads/{each.pk}/")()
        for each in lab.workloads.filter(tenant=world.ada).exclude(state="withdrawn")
    ], {lists["workloads"]}  # fmt: skip
    yield "end of a member", delete(member), {lists["members"]}
    yield "end of a group", delete(group), {lists["groups"]}
    yield "end of the group of a key", delete(f"{LAB}/groups/ml/"), {lists["groups"]}


def used(world, operator):
    hour = {"start": "2026-12-15T10:00:00Z", "end": "2026-12-15T11:00:00Z"}
    row = {"event_id": "e1", "tenant": "ada", "resource": "cpu", "quantity": 1, **hour}
    operator.post(f"{LAB}/usage/", [row])


def reported(world, operator):
    factories.enforcement_report(world.lab.runs.filter(status="succeeded").first())


def test_no_304_stands_for_a_changed_answer(lab, operator, clock):
    readers = Readers(lab)
    assert len(readers.known) > 60
    for name, change, expected in changes(lab, operator, clock):
        change()
        changed = readers.changed()
        assert expected <= changed, (name, expected - changed)
        if name in ("nothing", "time"):
            assert not changed


def test_slots_and_their_end_change_the_decision(clock):
    pool = factories.pool(policy="tda", options={"period_seconds": 4100})
    ada, bob = factories.tenant("ada"), factories.tenant("bob")
    factories.server(pool, "s1", 15, 15, ada)
    factories.workload(pool, "wide", 5, 2, ada)
    factories.workload(pool, "tall", 3, 3.5, bob)
    factories.decision(pool)
    readers = [factories.client(), factories.client("tenant", ada)]
    known = [(each, *_slot(each)) for each in readers]
    slots = set()
    for _ in range(80):
        clock.shift(timedelta(seconds=100))
        for index, (reader, tag, slot) in enumerate(known):
            again = reader.get(f"{LAB}/decision/", If_None_Match=tag)
            now = _slot(reader)
            assert (again.status_code == 304) == (now[1] == slot)
            known[index] = (reader, *now)
            slots.add(str(now[1]["start"]))
    assert len(slots) > 3


def _slot(reader):
    answer = reader.get(f"{LAB}/decision/")
    return answer["ETag"], answer.json()["slot"]


def test_a_tag_belongs_to_the_rights_of_a_key_and_to_what_is_asked(lab):
    """Another scope, tenant, query or format: none of them is answered by another's tag."""
    readers = Readers(lab)
    by_path = {}
    for (_, path), (tag, shown) in readers.known.items():
        for other in by_path.setdefault(path.partition("?")[0], []):
            if other[0] == tag and path.partition("?")[0] not in (f"{LAB}/", f"{V1}/policies/"):
                assert other[1] == shown
        by_path[path.partition("?")[0]].append((tag, shown))
    everything = readers.known["operator", f"{LAB}/allocations/"][0]
    for path in (f"{LAB}/allocations/?limit=1", f"{LAB}/allocations/?by=tenant"):
        assert readers.callers["operator"].get(path, If_None_Match=everything).status_code == 200
    for name in ("ada", "bob", "group", "billing"):
        answer = readers.callers[name].get(f"{LAB}/allocations/", If_None_Match=everything)
        assert answer.status_code == 200
    path = f"{LAB}/allocations/"
    as_csv = readers.callers["operator"].get(path, Accept="text/csv", If_None_Match=everything)
    assert as_csv.status_code == 200
    wrong = readers.callers["operator"].get(f"{path}?limit=0", If_None_Match="*")
    assert wrong.status_code == 400
    assert factories.Client("alloc_x").get(path, If_None_Match=everything).status_code == 401


def test_another_release_or_secret_makes_every_tag_old(lab, operator, monkeypatch):
    for target in ("api.versions.__version__", "api.v1.pools.__version__"):
        before = {path: version(operator, path) for path in (f"{LAB}/", f"{LAB}/members/")}
        monkeypatch.setattr(target, "next")
        after = {path: version(operator, path) for path in before}
        assert before != after
        monkeypatch.undo()
    before = version(operator, f"{LAB}/members/")
    monkeypatch.setattr("api.versions.secret", lambda: b"other")
    assert version(operator, f"{LAB}/members/") != before


def test_pages_of_an_older_decision_and_other_instants_have_no_tag(lab, operator):
    following = operator.get(f"{LAB}/allocations/?limit=1").json()["next"]
    assert following
    assert "ETag" not in operator.get(following)
    at = (utc_now() - timedelta(seconds=0)).isoformat().replace("+00:00", "Z")
    assert "ETag" not in operator.get(f"{LAB}/decision/?at={at}")


def test_a_known_answer_costs_one_statement_or_two(lab, operator):
    """That of the key and its pool, and that of the decision in force."""
    for path, most in (("", 1), ("members/", 1), ("decision/", 2), ("allocations/", 2)):
        tag = version(operator, f"{LAB}/{path}")
        with CaptureQueriesContext(connection) as queries:
            assert operator.get(f"{LAB}/{path}", If_None_Match=tag).status_code == 304
        assert len(queries) <= most, queries.captured_queries


def test_the_tag_of_a_pool_is_still_what_changes_send(lab, operator):
    """Its part before the dot is the version: changes in the pool do not make it old."""
    tag = version(operator, f"{LAB}/")
    factories.server(lab.lab, "more", 1, 1, None)
    assert version(operator, f"{LAB}/") != tag
    assert operator.patch(f"{LAB}/", {"name": "A"}, If_Match=tag).status_code == 200
    assert operator.patch(f"{LAB}/", {"name": "B"}, If_Match=tag).status_code == 412
    assert operator.patch(f"{LAB}/", {"name": "B"}, If_Match='"v2"').status_code == 200
    assert operator.patch(f"{LAB}/", {"name": "C"}, If_Match='"v.3"').status_code == 412


def test_every_target_of_renderings_has_its_own_tag(lab, operator):
    tags = [version(operator, f"{LAB}/decision/renderings/{each}/") for each in TARGETS]
    assert len(set(tags)) == len(tags)
