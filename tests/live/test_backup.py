"""A backup made while the service works, restored as the operators' guide has it: nothing is torn."""

import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from launcher import folders
from launcher.binaries import postgres_programs
from launcher.client import Client
from launcher.processes import stop
from tests.examples import long
from tests.live.conftest import launched
from tests.live.service import LiveService

pytestmark = long

GUIDE = Path("docs/guides/operators.md")
POOL = "/api/v1/pools/kept"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[LiveService]:
    with launched("kept", worker_id, tmp_path_factory.mktemp("kept")) as live:
        yield live


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    folder = folders.fresh("programs")
    yield postgres_programs(folder)
    folder.remove()


class Submitter(threading.Thread):
    """Submits one workload after the other; `accepted` are the names that it was told are stored."""

    def __init__(self, client: Client) -> None:
        super().__init__(daemon=True)
        self.client, self.accepted, self.enough = client, list[str](), threading.Event()

    def run(self) -> None:
        while not self.enough.is_set():
            name = f"w-{len(self.accepted):04d}"
            self.client.post(
                f"{POOL}/workloads/",
                {"tenant": "physics", "name": name, "demand": {"cpu": 1}, "tasks": 1},
            )
            self.accepted.append(name)
            time.sleep(0.02)


def superuser(live: LiveService) -> str:
    """The database's address for who makes and restores backups."""
    address = live.environment["DATABASE_URL"]
    role = urlsplit(address).username
    as_postgres = address.replace(f"//{role}@", "//postgres@", 1)
    try:
        psycopg.connect(as_postgres).close()
    except psycopg.OperationalError:
        pytest.skip("the database that DATABASE_URL names lets nobody in as postgres")
    return as_postgres


def test_a_backup_made_in_the_middle_of_work_is_whole_and_goes_on(
    kept: LiveService, programs: Path, tmp_path: Path
) -> None:
    address, operator = superuser(kept), kept.client("operator", "tests")
    operator.post("/api/v1/pools/", {
        "slug": "kept", "name": "Kept", "policy": {"name": "drfh"}, "weights": "explicit",
        "resources": [{"name": "cpu"}], "decision_interval": "PT1S",
    })  # fmt: skip
    operator.post("/api/v1/tenants/", {"slug": "physics", "name": "Physics"})
    operator.request("PUT", f"{POOL}/members/physics/", {"weight": 1})
    operator.post(f"{POOL}/servers/", {"name": "first", "count": 4, "capacity": {"cpu": 16}})
    submitter = Submitter(operator)
    submitter.start()
    time.sleep(3)
    before = list(submitter.accepted)
    dump = tmp_path / "allocator.dump"
    assert "pg_dump -U postgres --format=custom allocator" in GUIDE.read_text()
    run(programs / "pg_dump", "--format=custom", "--file", dump, address)
    after = len(submitter.accepted)
    submitter.enough.set()
    submitter.join()
    assert len(before) < after <= len(submitter.accepted)

    for process in kept.processes.values():
        stop(process, patience_seconds=10)
    options = ["--clean", "--if-exists", "--create", "--exit-on-error"]
    assert f"pg_restore -U postgres {' '.join(options)} --dbname postgres" in GUIDE.read_text()
    run(
        programs / "pg_restore",
        *options,
        "--dbname",
        f"{address.rpartition('/')[0]}/postgres",
        dump,
    )
    kept.manage("migrate", "--verbosity", "0")
    kept.launch()

    stored = {row["name"] for row in operator.pages(f"{POOL}/workloads/")}
    assert set(before) <= stored <= set(submitter.accepted[: after + 1])
    generation = int(operator.get(f"{POOL}/").headers["Pool-Generation"])
    decision = await_decision(operator, generation)
    allocated = operator.pages(f"{POOL}/allocations/")
    assert {row["workload"]["name"] for row in allocated} == stored
    assert operator.post(f"/api/v1/runs/{decision}/verify/", {}).body["valid"] is True
    assert "holds" in kept.manage("verify")
    operator.post(f"{POOL}/workloads/", {"tenant": "physics", "name": "new", "demand": {"cpu": 1}})
    await_decision(operator, generation + 1)
    assert "new" in {row["workload"]["name"] for row in operator.pages(f"{POOL}/allocations/")}


def run(program: Path, *arguments: str | Path) -> None:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def await_decision(operator: Client, generation: int) -> str:
    """The run whose decision includes a generation."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        answer = operator.request("GET", f"{POOL}/decision/")
        if answer.status == 200 and answer.body["generation"] >= generation:
            return str(answer.body["run"]["id"])
        time.sleep(0.1)
    raise AssertionError(f"generation {generation} is not decided")
