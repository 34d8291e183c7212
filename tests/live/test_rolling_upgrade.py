"""The release before works on while the database is migrated, and beside this one until it is replaced.

Its sources come from git, on this tree's dependencies; it is skipped where git lacks the commit.
"""

import json
import re
from collections.abc import Iterator

import pytest

from launcher.client import Client
from launcher.processes import stop, wait_until_ready
from tests import migrated
from tests.examples import long
from tests.live.conftest import decision_of, servers_of
from tests.live.service import LiveService
from tests.live.test_backup import Submitter
from tests.upgrades import previous_release

pytestmark = long

POOL = "/api/v1/pools/kept"
BESIDE = ("relay", "sender", "beat")


@pytest.fixture(scope="module")
def releases(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Iterator[tuple[LiveService, LiveService]]:
    """The release before, up and ready on a database of its own schema; and this one, not started."""
    folder = tmp_path_factory.mktemp("releases")
    for name in ("before", "before-logs", "logs"):
        (folder / name).mkdir()
    try:
        sources = previous_release.unpack(folder / "before")
    except previous_release.Unavailable as reason:
        pytest.skip(f"the release before is not in this copy: {reason}")
    environment = servers_of("kept", worker_id)
    migrated.empty(environment["DATABASE_URL"].rpartition("/")[2])
    # Its kernels are compiled nowhere: two servers are solved without.
    interpreted = environment | {"NUMBA_DISABLE_JIT": "1"}
    before = LiveService(interpreted, folder / "before-logs", sources)
    now = LiveService(environment, folder / "logs")
    try:
        before.manage("migrate", "--verbosity", "0")
        before.launch()
        yield before, now
    finally:
        before.stop()
        now.stop()


def key_of(service: LiveService, name: str) -> str:
    return service.manage("apikey", "create", "--scope", "operator", "--name", name)


def end(service: LiveService, *names: str) -> None:
    for name in names:
        stop(service.processes.pop(name), patience_seconds=20)


def served(client: Client) -> tuple[object, ...]:
    """What tells the decision in force: the run, who got what, and whether it verifies."""
    run = client.get(f"{POOL}/decision/").body["run"]["id"]
    rows = [
        [
            (row["tenant"], row["workload"]["name"], row["tasks"])
            for row in client.pages(f"/api/v1/runs/{run}/{part}/")
        ]
        for part in ("allocations", "placements")
    ]
    # Each release may write its own fields beside the numbers.
    rendering = json.dumps(client.get(f"{POOL}/decision/renderings/kueue/").body)
    quotas = re.findall(r'"nominalQuota": ("?[^",}]*)', rendering)
    return run, rows, quotas, client.post(f"/api/v1/runs/{run}/verify/", {}).body["valid"]


def submitted(client: Client, name: str) -> int:
    """The generation of a workload of one task that is submitted."""
    body = {"tenant": "physics", "name": name, "demand": {"cpu": 1}, "tasks": 1}
    return int(client.post(f"{POOL}/workloads/", body).headers["Pool-Generation"])


def test_the_release_before_works_on_the_new_schema_beside_this_one(
    releases: tuple[LiveService, LiveService],
) -> None:
    before, now = releases
    old_key = key_of(before, "before")
    old = Client(before.url, old_key)
    old.post("/api/v1/pools/", {
        "slug": "kept", "name": "Kept", "weights": "explicit",
        "policy": {"name": "drfh", "mode": "indivisible"},
        "resources": [{"name": "cpu"}],
    })  # fmt: skip
    old.post("/api/v1/tenants/", {"slug": "physics", "name": "Physics"})
    old.request("PUT", f"{POOL}/members/physics/", {"weight": 1})
    old.post(f"{POOL}/servers/", {"name": "first", "count": 4, "capacity": {"cpu": 64}})

    # The database is migrated while clients of the release before write.
    submitter = Submitter(old)
    submitter.start()
    now.manage("migrate", "--verbosity", "0")
    migrated_after = len(submitter.accepted)
    assert decision_of(old, "kept", submitted(old, "on the new schema"))
    submitter.enough.set()
    submitter.join()
    assert submitter.accepted  # each was answered with success, or its thread had ended
    assert len(submitter.accepted) > migrated_after
    assert before.ready()

    # Both web servers, the worker of the release before: each reads what the other wrote.
    now.start("web")
    wait_until_ready(
        lambda: Client(now.url).request("GET", "/readyz").status == 200,
        process=now.processes["web"],
        step="start the web server of this release",
        log=now.logs / "web.log",
    )
    new_key = key_of(now, "now")
    new = Client(now.url, new_key)
    both = (old, new, Client(now.url, old_key), Client(before.url, new_key))
    generation = submitted(new, "by this release")
    assert decision_of(new, "kept", generation)["generation"] == generation
    shown = served(old)
    assert [served(client) for client in both] == [shown] * len(both)
    assert shown[-1] is True
    assert shown[2]  # quotas

    # The worker of this release, and what stands beside it; web of the release before goes on.
    end(before, "worker", *BESIDE)
    now.start("worker", *BESIDE)
    generation = submitted(old, "by the release before")
    assert decision_of(old, "kept", generation, seconds=60)["generation"] == generation
    shown = served(old)
    assert [served(client) for client in both] == [shown] * len(both)
    assert shown[-1] is True
    names = {row["name"] for row in new.pages(f"{POOL}/workloads/")}
    others = {"on the new schema", "by this release", "by the release before"}
    assert names == {*submitter.accepted, *others}
    events = [client.pages("/api/v1/events/?limit=1000") for client in (old, new)]
    assert [row["id"] for row in events[0]] == [row["id"] for row in events[1]]

    # A step back: the worker of the release before decides what this one has left.
    end(now, "worker", *BESIDE)
    before.start("worker", *BESIDE)
    generation = submitted(new, "after the step back")
    assert decision_of(new, "kept", generation, seconds=60)["generation"] == generation
    assert served(new) == served(old)
    assert "holds" in now.manage("verify")
