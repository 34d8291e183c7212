"""The script for Slurm, run by a shell with commands that write down what they are told."""

import subprocess
from pathlib import Path

from tests.unit.enforcement.test_targets import pool_document, render

FAKE = """#!/bin/sh
echo "$(basename "$0") $*" >> "$LOG"
case "$*" in *account=bob*|"show reservation"*) exit 1;; esac
"""


def run_script(folder: Path, text: str) -> tuple[int, list[str]]:
    for command in ("sacctmgr", "scontrol"):
        (folder / command).write_text(FAKE)
        (folder / command).chmod(0o755)
    log = folder / "log"
    log.touch()
    path = f"{folder}:/usr/bin:/bin"
    done = subprocess.run(["sh"], input=text.encode(), env={"PATH": path, "LOG": str(log)})
    return done.returncode, log.read_text().splitlines()


def test_a_command_that_fails_stops_no_other_and_is_told_at_the_end(tmp_path):
    code, told = run_script(tmp_path, render(pool_document(), "slurm").text)
    assert code == 1
    assert told[-1] == (
        "sacctmgr -i modify user where account=bob partition=small set GrpTRES=cpu=3,mem=1536"
    )
    assert len(told) == 9


def test_limits_never_exceed_the_capacity_while_the_script_runs(tmp_path):
    _, told = run_script(tmp_path, render(pool_document(), "slurm").text)
    limits = {"ada": 16, "bob": 16}  # whatever was set before
    lowered = False
    for line in told:
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if " account where " not in line:
            continue
        cpus = int(words["GrpTRES"].split(",")[0].removeprefix("cpu="))
        limits |= dict.fromkeys(words["name"].split(","), cpus)
        lowered = lowered or not any(limits.values())
        assert lowered
        assert sum(limits.values()) <= 16
    assert limits == {"ada": 8, "bob": 3}
