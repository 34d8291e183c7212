"""The session of docs/guides/slurm.md runs as it stands, on a real Slurm."""

import json

from tests.guides import run_guide


def test_the_guide_runs_as_it_stands(operator, service, agent_key, quiet, tmp_path):
    told = run_guide(
        "slurm.md", service=service, folder=tmp_path, KEY=agent_key, **quiet.environment
    )
    assert "pool cluster, no decision: 0 changes" in told
    states = [
        line.split()[2] for line in told.splitlines() if " physics " in line or " biology " in line
    ]
    assert (states.count("R"), states.count("PD")) == (12, 0) or "AssocGrp" in told
    assert json.loads(told.splitlines()[-1])["tenants"][0]["tenant"] == "biology"
