"""The session of docs/guides/tenants.md is run as it stands."""

import json
import re
import subprocess
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "tenants.md"


def session(url):
    """The guide's shell lines, but for the making of the key, against the service at `url`."""
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    lines = "".join(block for block in blocks if not block.startswith("manage.py"))
    return lines.replace("http://localhost:8000", url)


def test_the_tenants_session_runs_from_key_to_decision(service, operator, tmp_path):
    for slug in ("physics", "biology"):
        operator.post("/api/v1/tenants/", {"slug": slug, "name": slug.title()})
    resources = [{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"}]
    pool = {"slug": "lab", "name": "Research lab", "weights": "explicit", "resources": resources}
    operator.post("/api/v1/pools/", {**pool, "policy": {"name": "drfh"}})
    others = {"contributed_by": "biology", "capacity": {"cpu": 12, "memory": 2}}
    operator.post("/api/v1/pools/lab/servers/", {"name": "high-cpu", **others})
    demand = {"cpu": 1, "memory": 0.2}
    operator.post(
        "/api/v1/pools/lab/workloads/", {"tenant": "biology", "name": "folding", "demand": demand}
    )
    operator.request("PUT", "/api/v1/pools/lab/members/physics/", {"weight": 1})
    key = service.manage(
        "apikey", "create", "--scope", "tenant", "--tenant", "physics", "--name", "laptop"
    )

    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", session(service.url)],
        env={**service.environment, "KEY": key},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    answers = [json.loads(line) for line in ran.stdout.splitlines() if line]
    assert [answer for answer in answers if "request_id" in answer and "errors" in answer] == []
    (row,) = next(
        answer["results"]
        for answer in answers
        if "results" in answer and "limited_by" in answer["results"][0]
    )
    told = json.loads(re.search(r"```json\n(.*?)```", GUIDE.read_text(), re.DOTALL)[1])
    assert row["limited_by"] == told["limited_by"]
    for name in ("tasks", "dominant_share", "weighted_share"):
        assert abs(row[name] - told[name]) < 1e-3
    assert row["dominant_resource"] == told["dominant_resource"]
    explanation = next(answer for answer in answers if "sentence" in answer)
    assert explanation["sentence"]
    simulated = next(answer for answer in answers if answer.get("status") == "succeeded")
    (more,) = [row for row in simulated["result"]["workloads"] if row["workload"] == "more"]
    assert more["before"] is None
    assert abs(more["after"]["tasks"] - 4) < 1e-6  # its priority is the higher one
