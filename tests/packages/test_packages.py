"""The packages as their users get them: built, installed into empty environments, and run there."""

import json
import os
import socket
import subprocess
import sys
import time
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import allocator_service
from launcher import folders
from launcher.client import Client
from launcher.processes import Process, start, stop
from launcher.servers import Servers
from tests.examples import long

PROJECT = Path(__file__).parents[2]
SERVERS = ("DATABASE_URL", "MIGRATION_DATABASE_URL", "REDIS_URL")
FIGURE_2: dict[str, Any] = {
    "resources": ["cpu", "memory"],
    "servers": [{"capacity": {"cpu": 2, "memory": 12}}, {"capacity": {"cpu": 12, "memory": 2}}],
    "tenants": [{"name": "physics"}, {"name": "biology"}],
    "workloads": [
        {"tenant": "physics", "name": "analysis", "demand": {"cpu": 0.2, "memory": 1}},
        {"tenant": "biology", "name": "folding", "demand": {"cpu": 1, "memory": 0.2}},
    ],
    "policy": {"name": "drfh"},
}


OLDEST = next(
    (path for folder in (Path("/usr/bin"), Path.home() / ".pyenv" / "versions")
     for path in sorted(folder.glob("python3.9" if folder.name == "bin" else "3.9*/bin/python"))),
    None,
)  # fmt: skip


class Installed:
    """An environment that holds nothing but what is installed into it here."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True)
        self.bin = folder / "bin"
        self.elsewhere = folder / "elsewhere"  # not the project's folder, whose modules would do
        self.elsewhere.mkdir()

    def install(self, *what: str | Path) -> None:
        pip = (self.bin / "python", "-m", "pip", "install", "--quiet", "--no-input")
        run(*pip, "--no-compile", *what)  # most modules are never imported

    def __call__(self, *command: str | Path, **environment: str) -> str:
        """Run a command of the environment and return what it prints."""
        env = {**without_project(), **environment}
        return run(self.bin / command[0], *command[1:], cwd=self.elsewhere, env=env)


def run(*command: str | Path, **keys: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, **keys)
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def without_project() -> dict[str, str]:
    """Our environment without what leads to the project or to the tests' servers."""
    left_out = {*SERVERS, "PYTHONPATH", "DJANGO_SETTINGS_MODULE", "VIRTUAL_ENV"}
    return {name: value for name, value in os.environ.items() if name not in left_out}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of the library, papers, agent, client and service, built from the tree."""
    out = tmp_path_factory.mktemp("wheels")
    for source in (
        PROJECT / "policies",
        PROJECT / "papers",
        PROJECT / "agent",
        PROJECT / "client",
        PROJECT,
    ):
        build = [sys.executable, "-P", "-m", "hatchling", "build", "--target", "wheel"]
        run(*build, "--directory", out, cwd=source)
    return {path.name.partition("-")[0]: path for path in out.glob("*.whl")}


@pytest.fixture
def servers() -> Iterator[Servers]:
    """A PostgreSQL and a Redis of their own."""
    saved = {name: os.environ.pop(name) for name in SERVERS if name in os.environ}
    folder = folders.fresh("test")
    try:
        servers = Servers(folder, durable=False)
    finally:
        os.environ.update(saved)
    yield servers
    servers.stop()
    folder.remove()


def test_the_library_solves_and_verifies_in_an_environment_of_its_own(wheels, tmp_path):
    installed = Installed(tmp_path / "library")
    installed.install(f"{wheels['allocation_policies']}[solvers]")
    installed("python", "-m", "pip", "check")
    assert "django" not in installed("python", "-m", "pip", "list").lower()
    problem, answer = tmp_path / "problem.json", tmp_path / "answer.json"
    problem.write_text(json.dumps(FIGURE_2))
    answer.write_text(installed("python", "-m", "policies", "solve", str(problem), "--json"))
    tasks = [row["tasks"] for row in json.loads(answer.read_text())["allocations"]]
    assert tasks == pytest.approx([10, 10])
    assert "valid" in installed("allocation-policies", "verify", str(problem), str(answer))


def test_an_answer_is_verified_where_there_is_nothing_but_numpy(wheels, tmp_path):
    """A tenant's copy of a decision, on a machine that has Python and `pip install` of the library."""
    problem, answer = tmp_path / "problem.json", tmp_path / "answer.json"
    problem.write_text(json.dumps(FIGURE_2))
    solve = [sys.executable, "-m", "policies", "solve", str(problem), "--json"]
    answer.write_text(run(*solve, cwd=PROJECT))
    installed = Installed(tmp_path / "verifier")
    installed.install(wheels["allocation_policies"])
    packages = json.loads(installed("python", "-m", "pip", "list", "--format", "json"))
    names = {package["name"].lower() for package in packages}
    assert names - {"pip", "setuptools"} == {"allocation-policies", "numpy"}
    verify = ("python", "-m", "policies", "verify", str(problem), str(answer))
    assert installed(*verify).endswith("\nvalid\n")
    forged = json.loads(answer.read_text())
    forged["placements"] = []
    answer.write_text(json.dumps(forged))
    with pytest.raises(AssertionError, match="NOT valid"):
        installed(*verify)
    with pytest.raises(AssertionError, match=r"allocation-policies\[solvers\]"):
        installed("python", "-m", "policies", "solve", str(problem))


def test_the_agent_is_python_and_nothing_else(wheels, tmp_path):
    installed = Installed(tmp_path / "agent")
    installed.install(wheels["allocator_agent"])
    packages = json.loads(installed("python", "-m", "pip", "list", "--format", "json"))
    names = {package["name"].lower() for package in packages}
    assert names - {"pip", "setuptools"} == {"allocator-agent"}
    assert installed("allocator-agent", "--version") == "allocator-agent 0.1.0\n"


def test_the_agents_wheel_checks_a_cluster_before_anything_else_is_there(wheels, tmp_path):
    """Without a service and an API server `check` lists both, and ends with the service's code."""
    installed = Installed(tmp_path / "agent")
    installed.install(wheels["allocator_agent"])
    file = installed.elsewhere / "agent.ini"
    settings = (
        "[service]\nurl = http://127.0.0.1:1\npool = lab\n[agent]\nname = a\nscheduler = {}\n"
        "[kubernetes]\napi = http://127.0.0.1:1\n[slurm]\nbin = /nowhere\n"
    )
    command = [installed.bin / "allocator-agent", "check", "--config", file]
    env = {**without_project(), "ALLOCATOR_KEY": "alloc_x"}
    for scheduler, missing in (
        ("slurm", "there is no /nowhere/scontrol: set [slurm] bin"),
        ("kueue", "http://127.0.0.1:1 does not answer"),
    ):
        file.write_text(settings.format(scheduler))
        done = subprocess.run(command, cwd=file.parent, env=env, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (3, "")
        lines = done.stdout.splitlines()
        assert lines[0] == f"configuration {file}"
        assert f"  ok       agent a of pool lab for {scheduler}" in lines
        assert f"  missing  {missing}" in done.stdout
        assert lines[-1] == "2 missing, 1 ok."
    file.write_text(settings.format("torque"))
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 2
    assert "[agent] scheduler is one of slurm, kueue, kubernetes" in done.stderr


def test_the_client_asks_without_the_service_and_verifies_with_the_library(wheels, tmp_path):
    """`pip install allocator-client` has no NumPy, `allocator-client[verify]` has no solver."""
    installed = Installed(tmp_path / "client")
    installed.install(wheels["allocator_client"])
    packages = json.loads(installed("python", "-m", "pip", "list", "--format", "json"))
    names = {package["name"].lower() for package in packages}
    of_httpx = {"anyio", "certifi", "h11", "httpcore", "idna", "typing_extensions"}
    assert names - {"pip", "setuptools"} - of_httpx == {"allocator-client", "click", "httpx"}
    assert installed("alloc", "--version") == "alloc, version 0.1.0\n"
    assert "_ALLOC_COMPLETE" in installed("alloc", "completion", "bash")
    installed(
        "python", "-c", "from allocator_client import Client; Client('http://localhost', 'k')"
    )
    assert list(installed.bin.parent.glob("lib/*/site-packages/allocator_client/py.typed"))
    with pytest.raises(AssertionError, match=r"allocator-client\[verify\]"):
        installed("alloc", "verify", "proof.json")
    installed.install("--find-links", wheels["allocation_policies"].parent,
                      f"{wheels['allocator_client']}[verify]")  # fmt: skip
    problem, proof = tmp_path / "problem.json", installed.elsewhere / "proof.json"
    problem.write_text(json.dumps(FIGURE_2))
    solve = [sys.executable, "-m", "policies", "solve", str(problem), "--json"]
    proof.write_text(
        json.dumps({"input": FIGURE_2, "answer": json.loads(run(*solve, cwd=PROJECT))})
    )
    assert installed("alloc", "verify", "proof.json").endswith("\nvalid\n")
    packages = json.loads(installed("python", "-m", "pip", "list", "--format", "json"))
    assert "scipy" not in {package["name"].lower() for package in packages}


@pytest.mark.skipif(OLDEST is None, reason="no Python 3.9 is installed here")
def test_the_agent_runs_on_the_oldest_python_that_it_promises(wheels, tmp_path):
    unpacked = tmp_path / "unpacked"
    run(sys.executable, "-m", "zipfile", "-e", wheels["allocator_agent"], unpacked)
    env = {"PYTHONPATH": str(unpacked), "PYENV_VERSION": "", "PATH": os.environ["PATH"]}
    told = run(str(OLDEST), "-m", "allocator_agent", "--help", cwd=tmp_path, env=env)
    assert "--reclaim" in told


def test_the_services_wheel_holds_every_file_of_its_packages(wheels):
    """Templates, migrations and static files included."""
    git = ("git", "ls-files", "allocator_service", "api")
    listed = subprocess.run(git, cwd=PROJECT, capture_output=True, text=True)
    if listed.returncode != 0 or not (PROJECT / ".git").exists():
        pytest.skip(f"git does not say what belongs to the project: {listed.stderr or 'no clone'}")
    tracked = listed.stdout.splitlines()
    assert len(tracked) > 100
    packed = set(zipfile.ZipFile(wheels["allocator_service"]).namelist())
    assert [name for name in tracked if name not in packed] == []


@long
def test_the_service_runs_from_its_wheel(wheels, servers, tmp_path):
    installed = Installed(tmp_path / "service")
    installed.install("--require-hashes", "--no-deps", "-r", PROJECT / "requirements.lock")
    installed.install(
        "--no-deps", *(wheels[name] for name in ("allocation_policies", "allocator_service"))
    )
    installed("python", "-m", "pip", "check")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **servers.environment,
        "DJANGO_SETTINGS_MODULE": "allocator_service.settings.local",
        "STATIC_ROOT": str(tmp_path / "static"),
        # The library's test compiles kernels: two servers are solved without.
        "NUMBA_DISABLE_JIT": "1",
    }
    production = environment | {
        "DJANGO_SETTINGS_MODULE": "allocator_service.settings.production",
        "ALLOWED_HOSTS": "localhost",
    }
    manage = installed.bin / "allocator-manage"
    installed("allocator-manage", "migrate", "--verbosity", "0", **environment)
    installed("allocator-manage", "collectstatic", "--no-input", **production)
    assert (tmp_path / "static" / "staticfiles.json").exists()
    key = installed(
        "allocator-manage", "apikey", "create", "--scope", "operator", "--name", "me", **environment
    ).strip()
    celery = (installed.bin / "celery", "--quiet", "--app", "allocator_service")
    commands = {
        "web": (installed.bin / "gunicorn", "allocator_service.wsgi", "--threads", "4",
                "--bind", f"127.0.0.1:{port}", "--no-control-socket"),
        "relay": (manage, "relay"),
        "worker": (*celery, "worker", "--concurrency", "1", "--loglevel", "INFO"),
    }  # fmt: skip
    logs: dict[str, Path] = {name: tmp_path / f"{name}.log" for name in commands}
    with ExitStack() as running:
        for name, command in commands.items():
            process = launch(name, command, environment, installed.elsewhere, logs[name])
            running.callback(stop, process, patience_seconds=10)
        client = Client(f"http://127.0.0.1:{port}", key)
        decision = decided(client, logs)
        assert decision["run"]["policy"]["name"] == "drfh"
        rows = client.pages("/api/v1/pools/lab/allocations/")
        assert [row["tasks"] for row in rows] == pytest.approx([10, 10])


def launch(
    name: str, command: tuple[object, ...], environment: dict[str, str], cwd: Path, log: Path
) -> Process:
    with log.open("ab") as output:
        return start(
            [str(part) for part in command],
            env={**without_project(), **environment, "ALLOCATOR_PROCESS": name},
            cwd=cwd,
            output=output,
        )


def decided(client: Client, logs: dict[str, Path], seconds: float = 300) -> dict[str, Any]:
    """Make DRFH's Figure 2 as a pool, once the web process answers, and wait for its decision."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if client.request("GET", "/healthz").status == 200:
                break
        except OSError:
            pass
        assert time.monotonic() < deadline, logs["web"].read_text()
        time.sleep(0.2)
    resources = [{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"}]
    pool = {"slug": "lab", "name": "Lab", "weights": "explicit", "resources": resources}
    client.post("/api/v1/pools/", pool | {"policy": {"name": "drfh"}})
    for tenant in FIGURE_2["tenants"]:
        client.post("/api/v1/tenants/", {"slug": tenant["name"], "name": tenant["name"]})
    named = [{"name": f"s{i}", **server} for i, server in enumerate(FIGURE_2["servers"])]
    client.post("/api/v1/pools/lab/servers/", named)
    client.post("/api/v1/pools/lab/workloads/", FIGURE_2["workloads"])
    generation = client.get("/api/v1/pools/lab/").body["generation"]
    while True:
        answer = client.request("GET", "/api/v1/pools/lab/decision/")
        if answer.status == 200 and answer.body["generation"] >= generation:
            found: dict[str, Any] = answer.body
            return found
        told = "\n".join(log.read_text()[-2000:] for log in logs.values())
        assert time.monotonic() < deadline, told
        time.sleep(0.2)


def test_the_packages_and_the_api_have_one_version():
    version = allocator_service.__version__
    service, library, client, papers = (
        tomllib.loads((PROJECT / folder / "pyproject.toml").read_text())["project"]
        for folder in (".", "policies", "client", "papers")
    )
    assert service["version"] == library["version"] == client["version"] == version
    assert papers["version"] == version
    assert f"allocation-policies[solvers]=={version}" in papers["dependencies"]
    assert f"allocation-policies[solvers]=={version}" in service["dependencies"]
    assert client["optional-dependencies"]["verify"] == [f"allocation-policies=={version}"]
    # The tests run the client from the tree: their environment has what it needs.
    assert set(client["dependencies"]) <= set(service["optional-dependencies"]["dev"])
    assert f"\n  version: {version}\n" in (PROJECT / "docs" / "openapi.yaml").read_text()
