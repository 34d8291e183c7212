"""The units run what the launcher runs, with what the settings read, and systemd takes them."""

import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from allocator_agent.configuration import read_configuration
from tests.unit.deploy.environment import (
    COMPONENTS,
    READ_BY_LIBRARIES,
    ROOT,
    comparable,
    variables_read_by_the_settings,
)

FOLDER = ROOT / "deploy" / "systemd"
AGENT = ROOT / "agent" / "allocator-agent.service"
UNITS = sorted(path.name for path in FOLDER.glob("*.service"))
PROCESSES = {
    "web": "allocator-web.service",
    "worker": "allocator-worker@.service",
    "backtests": "allocator-backtests@.service",
    "beat": "allocator-beat.service",
    "relay": "allocator-relay.service",
    "sender": "allocator-sender.service",
}
# Read by Python and numba themselves.
READ_BY_PYTHON = {"PYTHONUNBUFFERED", "NUMBA_CACHE_DIR"}


def settings_of(unit: str) -> dict[str, list[str]]:
    """Every setting of a unit with its values, in their order."""
    found = defaultdict(list)
    for line in (FOLDER / unit).read_text().splitlines():
        if match := re.fullmatch(r"([A-Z]\w+)=(.*)", line):
            found[match[1]].append(match[2])
    return found


def words_of(command: str) -> list[str]:
    program, *words = command.split()
    return [Path(program).name, *words]


def test_there_is_a_unit_for_every_process_and_one_that_prepares():
    assert PROCESSES.keys() == COMPONENTS.keys()
    assert sorted([*PROCESSES.values(), "allocator-prepare.service"]) == UNITS


def test_the_target_starts_every_process():
    wanted = " ".join(settings_of("allocator.target")["Wants"]).split()
    expected = {unit.replace("@", "@1") for unit in PROCESSES.values()}
    assert set(wanted) == expected


@pytest.mark.parametrize("name", PROCESSES)
def test_a_unit_and_the_launcher_run_the_same_command(name):
    (command,) = settings_of(PROCESSES[name])["ExecStart"]
    assert comparable(words_of(command)) == comparable([*COMPONENTS[name].command])


@pytest.mark.parametrize("name", PROCESSES)
def test_a_unit_says_which_process_it_is_and_gives_it_the_time_to_finish(name):
    unit = settings_of(PROCESSES[name])
    assert f"ALLOCATOR_PROCESS={name}" in " ".join(unit["Environment"]).split()
    assert unit["TimeoutStopSec"] == [f"{COMPONENTS[name].patience_seconds:.0f}"]
    assert unit["Restart"] == ["always"]
    assert unit["Requires"] == unit["After"] == ["allocator-prepare.service"]


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_sets_nothing_that_nobody_reads(unit):
    names = {
        word.split("=")[0] for line in settings_of(unit)["Environment"] for word in line.split()
    }
    assert names - variables_read_by_the_settings() - READ_BY_LIBRARIES - READ_BY_PYTHON == set()


@pytest.mark.parametrize("name", sorted(set(PROCESSES) - {"web"}))
def test_a_process_without_a_sign_of_life_is_started_again_after_as_long_as_everywhere(name):
    unit = settings_of(PROCESSES[name])
    assert unit["WatchdogSec"] == [f"{COMPONENTS[name].silence_seconds:.0f}"]
    assert (unit["Type"], unit["NotifyAccess"]) == (["notify"], ["main"])


def test_only_the_unit_that_prepares_knows_the_owner_of_the_tables():
    knowing = [unit for unit in UNITS if "/etc/allocator/migration" in (FOLDER / unit).read_text()]
    assert knowing == ["allocator-prepare.service"]


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_takes_the_unit(unit, tmp_path):
    verify([*FOLDER.iterdir()], unit.replace("@.", "@1."), tmp_path)


def verify(units: list[Path], name: str, folder: Path) -> None:
    """Have systemd read a unit among others, whose programs are not installed here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    for path in units:
        text = re.sub(r"/opt/allocator(/venv|-agent)/bin/[\w-]+", "/bin/true", path.read_text())
        (folder / path.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", folder / name],
        env={"SYSTEMD_UNIT_PATH": f"{folder}:/usr/lib/systemd/system:/lib/systemd/system"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_takes_the_agents_unit(tmp_path):
    verify([AGENT], AGENT.name, tmp_path)


def test_the_agents_unit_runs_as_its_own_user_with_few_rights(tmp_path):
    """The exposure that systemd computes is 1.4 of 10. Most services have above 9."""
    lines = AGENT.read_text().splitlines()
    assert "User=allocator-agent" in lines
    assert "CapabilityBoundingSet=" in lines
    assert "LoadCredential=key:/etc/allocator-agent.key" in lines
    assert any("adminlevel=Operator" in line for line in lines)
    analyze = ["systemd-analyze", "security", "--offline=true", "--threshold=15", AGENT]
    if shutil.which(analyze[0]) is None:
        pytest.skip("there is no systemd-analyze here")
    done = subprocess.run(analyze, capture_output=True, text=True)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze is older than 250")
    assert done.returncode == 0, done.stdout[-200:] + done.stderr


def test_the_agents_unit_has_options_that_the_agent_takes(tmp_path, monkeypatch):
    """The key is where systemd puts it, and the configuration lacks nothing else."""
    (command,) = re.findall(r"^ExecStart=(.*)$", AGENT.read_text(), re.MULTILINE)
    program, *words = command.split()
    assert program == "/opt/allocator-agent/bin/allocator-agent"
    assert words == ["--config", "/etc/allocator-agent.ini", "--every", "15s"]
    (tmp_path / "key").write_text("alloc_x\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    read = read_configuration(AGENT.with_name("agent.ini.example"))
    assert (read.key, read.scheduler) == ("alloc_x", "slurm")
