"""The session of docs/guides/slurm.md runs as it stands, on a real Slurm."""

import json
import re

from tests.guides import run_guide
from tests.slurm.conftest import eventually


def test_the_guide_runs_as_it_stands(service, quiet, tmp_path):
    key = service.manage("apikey", "create", "--scope", "operator", "--name", "slurm-guide")
    told = run_guide("slurm.md", service=service, folder=tmp_path, KEY=key, **quiet.environment)
    assert re.search(r"^pool cluster, (no decision|generation \d+): 0 changes$", told, re.MULTILINE)
    for line in ("  + member biology", "  + member physics", "  + server cpu-1"):
        assert line in told.splitlines()
    # Twelve jobs in the default partition, which has four CPUs.
    eventually(lambda: quiet.jobs("RUNNING") == {"physics": 2, "biology": 2})
    assert quiet.limits() == {"physics": "cpu=2,mem=512M", "biology": "cpu=2,mem=512M"}
    tenants = json.loads(told.splitlines()[-1])["tenants"]
    assert [(row["tenant"], row["enforced"]) for row in tenants] == [
        ("biology", {"cpu": "2", "memory": "512"}),
        ("physics", {"cpu": "2", "memory": "512"}),
    ]
