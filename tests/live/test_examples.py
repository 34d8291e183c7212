"""The H-MRF paper's Examples 3 and 4 in the running service: its own processes, all over HTTP.

Every process takes for now what one file says (CLOCK_FILE), so that steps are exactly as long as the
papers have them: a worker decides at the boundary, and not when it gets to it.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.examples import long
from tests.live.conftest import launched
from tests.live.service import LiveService

MINUTE = timedelta(minutes=1)
# Policies that forget decide so long after a change: made so much earlier, at the boundary too.
QUIET = timedelta(milliseconds=100)
MEMORYLESS = ("drf", "asset")


class Clock:
    """The instant that the service's processes take for now."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.turn(datetime(2027, 1, 4, 8, tzinfo=UTC))

    def turn(self, instant: datetime) -> None:
        self.now = instant
        fresh = self.file.with_suffix(".fresh")
        fresh.write_text(instant.isoformat())
        fresh.replace(self.file)


@dataclass
class World:
    service: LiveService
    clock: Clock
    session: requests.Session

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> requests.Response:
        answer = self.session.request(
            method, f"{self.service.url}/api/v1{path}", json=body, headers=headers, timeout=30
        )
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer

    def get(self, path: str) -> Any:
        return self.ask("GET", path).json()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("clocked")
    clock = Clock(folder / "clock")
    with launched("clocked", worker_id, folder, CLOCK_FILE=str(clock.file)) as service:
        session = requests.Session()
        key = service.manage("apikey", "create", "--scope", "operator", "--name", "examples")
        session.headers["Authorization"] = f"Bearer {key}"
        yield World(service, clock, session)


class Example:
    """A pool of 100 CPU and 100 GB that A and B contributed equally, and its steps of a minute."""

    def __init__(self, world: World, slug: str, policy: dict[str, Any], demands: Any) -> None:
        self._world, self._pool = world, f"/pools/{slug}"
        self.begin = world.clock.now.replace(second=0, microsecond=0) + MINUTE
        self._steps = 0
        for tenant in ("a", "b"):
            world.ask("POST", "/tenants/", {"slug": f"{slug}-{tenant}", "name": tenant.upper()})
        world.ask("POST", "/pools/", {
            "slug": slug, "name": slug, "policy": policy, "decision_interval": "PT1M",
            "resources": [{"name": "cpu"}, {"name": "memory"}], "window": {"kind": "unbounded"},
        })  # fmt: skip
        self._workloads = []
        for tenant, (cpu, memory) in zip(("a", "b"), demands, strict=True):
            world.ask("POST", f"{self._pool}/servers/", {
                "name": f"of-{tenant}", "contributed_by": f"{slug}-{tenant}",
                "capacity": {"cpu": 50, "memory": 50},
            })  # fmt: skip
            created = world.ask("POST", f"{self._pool}/workloads/", {
                "tenant": f"{slug}-{tenant}", "name": "work", "tasks": 0,
                "demand": {"cpu": cpu, "memory": memory},
            })  # fmt: skip
            self._workloads.append(created.json()["id"])
        if policy["name"] in MEMORYLESS:  # decides at once that nobody wants anything
            self.decided(world.clock.now + QUIET, int(created.headers["Pool-Generation"]))

    @property
    def end(self) -> datetime:
        """When the last step that was decided ends."""
        return self.begin + self._steps * MINUTE

    def step(self, pending: Sequence[int]) -> list[float]:
        """Have so many tasks of A and B pending at the next boundary; what the worker gives them."""
        boundary = self.end
        self._world.clock.turn(boundary - QUIET)
        for workload, tasks in zip(self._workloads, pending, strict=True):
            path = f"{self._pool}/workloads/{workload}/"
            tag = self._world.ask("GET", path).headers["ETag"]
            changed = self._world.ask("PATCH", path, {"tasks": tasks}, **{"If-Match": tag})
        self._steps += 1
        run = self.decided(boundary, int(changed.headers["Pool-Generation"]))["run"]
        verdict = self._world.ask("POST", f"/runs/{run['id']}/verify/", {}).json()
        assert verdict["valid"] is True, verdict
        rows = self._world.get(f"/runs/{run['id']}/allocations/")["results"]
        return [row["tasks"] for row in rows]

    def decided(self, at: datetime, generation: int = 0) -> Any:
        """Let time come to an instant; the decision that is in force from then on, once it is."""
        self._world.clock.turn(at)
        patience = time.monotonic() + 60
        while time.monotonic() < patience:
            answer = self._world.session.get(
                f"{self._world.service.url}/api/v1{self._pool}/decision/", timeout=30
            )
            if answer.ok:
                found = answer.json()
                begun = datetime.fromisoformat(found["run"]["effective_from"])
                if found["generation"] >= generation and begun == at:
                    return found
            time.sleep(0.05)
        raise AssertionError(f"nothing decided at {at}: {answer.text}")

    def remembered(self) -> list[dict[str, Any]]:
        """What the window holds of A and B after the last step: the input of the next decision."""
        run = self.decided(self.end)["run"]["id"]
        history = self._world.get(f"/runs/{run}/input/")["history"]
        assert history["step"] == 60
        assert history["elapsed"] == 60 * self._steps
        return list(history["tenants"].values())

    def reported(self) -> Any:
        """The report of the sharing degrees over all steps, a minute apiece, the last one metered."""
        self._world.clock.turn(max(self._world.clock.now, self.end))
        begin, end = (at.isoformat().replace("+00:00", "Z") for at in (self.begin, self.end))
        path = f"{self._pool}/reports/sharing-degree/?from={begin}&to={end}&step=PT1M"
        patience = time.monotonic() + 60
        while time.monotonic() < patience:
            rows = self._world.get(path)["tenants"]
            if any(Decimal(used) for row in rows for used in row["series"][-1]["used"].values()):
                return rows
            time.sleep(0.1)
        raise AssertionError("the last step was not metered")


NEW_TASKS = [(30, 4), (20, 24), (27, 8), (10, 30)]
TABLE_1A = [(24, 4), (20, 20), (22, 12), (20, 20)]
TABLE_1B = [(24, 4), (4, 24), (23, 8), (8, 23)]
ALONE = 12  # tasks of A, or B, in its half of the pool: 50 / 4


@pytest.mark.parametrize(
    ("policy", "table", "totals"),
    [
        ({"name": "drf", "mode": "indivisible"}, TABLE_1A, (86, 56)),
        pytest.param({"name": "asset", "mode": "indivisible"}, TABLE_1A, (86, 56), marks=long),
        pytest.param(
            {"name": "lt-drf", "options": {"placement": "pool"}}, TABLE_1B, (59, 59), marks=long
        ),
        pytest.param(
            {"name": "lt-af", "options": {"placement": "pool"}}, TABLE_1B, (59, 59), marks=long
        ),
        ({"name": "h-mrf", "options": {"placement": "pool"}}, TABLE_1B, (59, 59)),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else "",
)
def test_example_3_unserved_tasks_wait(
    world: World,
    policy: dict[str, Any],
    table: list[tuple[int, int]],
    totals: tuple[int, int],
) -> None:
    example = Example(world, f"three-{policy['name']}", policy, [(1, 4), (4, 1)])
    waiting, alone, served = [0, 0], [0, 0], []
    for new in NEW_TASKS:
        waiting = [old + more for old, more in zip(waiting, new, strict=True)]
        alone = [sum(pair) for pair in zip(alone, (min(w, ALONE) for w in waiting), strict=True)]
        served.append(tuple(example.step(waiting)))
        waiting = [w - int(done) for w, done in zip(waiting, served[-1], strict=True)]
    assert served == table
    assert tuple(map(sum, zip(*served, strict=True))) == totals
    if policy["name"] not in MEMORYLESS:
        (a_cpu, b_memory), (a_memory, b_cpu) = (
            [(done * size, own * size) for done, own in zip(totals, alone, strict=True)]
            for size in (60, 240)
        )
        assert [(row["used"], row["alone"]) for row in example.remembered()] == [
            tuple({"cpu": c, "memory": m} for c, m in zip(*amounts, strict=True))
            for amounts in ((a_cpu, a_memory), (b_cpu, b_memory))
        ]
    degrees = [float(Fraction(done, own)) for done, own in zip(totals, alone, strict=True)]
    reported = example.reported()
    assert [row["sharing_degree"]["min"] for row in reported] == degrees
    assert [row["used"] for row in reported] == [
        {"cpu": str(totals[0] * 60), "memory": str(totals[0] * 240)},
        {"cpu": str(totals[1] * 240), "memory": str(totals[1] * 60)},
    ]


@pytest.mark.parametrize(
    ("policy", "second", "aggregates", "degrees"),
    [
        pytest.param("lt-drf", (35, 30), (150, 200), (50 / 40, 100 / 90), marks=long),
        pytest.param("lt-af", (42, 16), (171, 172), (57 / 40, 86 / 90), marks=long),
        ("h-mrf", (40, 20), (165, 180), (1.375, 1)),
    ],
)
def test_example_4_unserved_tasks_are_dropped(
    world: World,
    policy: str,
    second: tuple[int, int],
    aggregates: tuple[int, int],
    degrees: tuple[float, float],
) -> None:
    choice = {"name": policy, "options": {"placement": "pool"}}
    example = Example(world, f"four-{policy}", choice, [(1, 2), (1, 1)])
    assert example.step((15, 80)) == [15, 70]
    assert tuple(example.step((60, 40))) == second
    remembered = example.remembered()
    accumulated = [{name: used / 60 for name, used in row["used"].items()} for row in remembered]
    assert tuple(sum(used.values()) for used in accumulated) == aggregates
    if policy == "lt-drf":
        assert [max(used.values()) for used in accumulated] == [100, 100]
    assert [row["alone"]["cpu"] / 60 for row in remembered] == [40, 90]
    reported = example.reported()
    assert tuple(row["sharing_degree"]["min"] for row in reported) == degrees
    assert [row["series"][0]["sharing_degree"]["min"] for row in reported] == [1, 1.4]


def test_what_the_examples_wrote_is_whole(world: World) -> None:
    # Every turn of the clock makes all pools minutes late at once: the worker gets to them one by one.
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not world.service.ready():
        time.sleep(0.2)
    lines = world.service.manage("verify").splitlines()
    assert [line.split()[0] for line in lines[:-1]] == ["holds"] * (len(lines) - 1)
