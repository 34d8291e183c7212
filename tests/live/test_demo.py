"""The commands that the demo prints when it goes on."""

import json
import subprocess

from demo import sample
from demo.main_job import run_main_job
from demo.run import invitation
from launcher.client import Client
from tests.examples import long
from tests.live.conftest import launched


@long
def test_each_command_is_answered(tmp_path, worker_id):
    # A service of its own, because the demo's tenants have names that other tests use.
    with launched("kept", worker_id, tmp_path) as service:
        key = service.manage("apikey", "create", "--scope", "operator", "--name", "demo")
        run_main_job(Client(service.url, key), check_service=lambda: None)
        printed = invitation(service.url, key, service.logs).splitlines()
        commands = "\n".join(line for line in printed if line.startswith("  "))
        done = subprocess.run(
            ["bash", "-euc", commands], capture_output=True, text=True, check=True, timeout=120
        )
    lines = done.stdout.splitlines()
    answers = [json.loads(line) for line in lines if line.startswith(("{", "["))]
    assert not [answer for answer in answers if "code" in answer]
    assert len(answers) == commands.count("\n  api ") - 1  # the table is CSV
    shares = {row["tenant"] for row in answers[-1]["results"]}
    assert shares >= {group.slug for group in sample.GROUPS}
