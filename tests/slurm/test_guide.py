"""The session of docs/guides/slurm.md runs as it stands, and prints what the page shows."""

import json

from tests.guides import GUIDES, run_steps
from tests.slurm.conftest import eventually


def test_the_guide_runs_as_it_stands(service, quiet, tmp_path):
    key = service.manage("apikey", "create", "--scope", "operator", "--name", "slurm-guide")
    printed = run_steps(
        GUIDES / "slurm.md", service=service, folder=tmp_path, KEY=key, **quiet.environment
    )
    # Twelve jobs in the default partition, which has four CPUs.
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 2, "biology": 2})
    assert quiet.limits() == {"physics": "cpu=2,mem=512M", "biology": "cpu=2,mem=512M"}
    tenants = json.loads(printed[-1])["tenants"]
    assert [(row["tenant"], row["enforced"]) for row in tenants] == [
        ("biology", {"cpu": "2", "memory": "512"}),
        ("physics", {"cpu": "2", "memory": "512"}),
    ]
