"""The session of docs/guides/command-line-client.md runs as it stands and prints what the page says."""

import re

import pytest

from allocator_client import Client
from launcher.folders import PROJECT
from tests.guides import run_session


@pytest.fixture(scope="module")
def observatory(service, operator):
    """Figure 2 of the DRFH paper before `astronomy` asks for anything; returns its key."""
    for slug in ("astronomy", "climate"):
        operator.post("/api/v1/tenants/", {"slug": slug, "name": slug.title()})
    resources = [{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"}]
    pool = {
        "slug": "observatory",
        "name": "Observatory",
        "weights": "explicit",
        "transparent": True,
    }
    pool |= {"resources": resources, "policy": {"name": "drfh"}}
    operator.post("/api/v1/pools/", pool)
    operator.post("/api/v1/pools/observatory/groups/", {"slug": "sky", "name": "Sky"})
    operator.request("PUT", "/api/v1/pools/observatory/members/astronomy/", {"group": "sky"})
    servers = [
        {
            "name": "high-memory",
            "contributed_by": "astronomy",
            "capacity": {"cpu": 2, "memory": 12},
        },
        {"name": "high-cpu", "contributed_by": "climate", "capacity": {"cpu": 12, "memory": 2}},
    ]
    operator.post("/api/v1/pools/observatory/servers/", servers)
    demand = {"tenant": "climate", "name": "ensemble", "demand": {"cpu": 1, "memory": 0.2}}
    operator.post("/api/v1/pools/observatory/workloads/", demand)
    prices = {"own": "0.01", "shared": "0.04", "outside": "0.90", "pool": "0.40"}
    rates = [{"resource": name, **prices} for name in ("cpu", "memory")]
    plan = {"pool": "observatory", "name": "2026", "from": "2026-01-01T00:00:00Z", "rates": rates}
    created = operator.post("/api/v1/price-plans/", plan).body["id"]
    operator.post(f"/api/v1/price-plans/{created}/publish/", {})
    return service.manage(
        *("apikey", "create", "--scope", "tenant", "--tenant", "astronomy", "--name", "terminal")
    )


def test_the_session_runs_as_it_stands(service, observatory, tmp_path):
    run_session(
        "command-line-client.md",
        service=service,
        folder=tmp_path,
        KEY=observatory,
        XDG_CONFIG_HOME=str(tmp_path / "config"),
    )


def test_the_lines_of_the_clients_readme_run(service, observatory, capsys):
    (lines,) = re.findall(
        r"```python\n(.*?)```", (PROJECT / "client" / "README.md").read_text(), re.DOTALL
    )
    with Client(service.url, observatory) as client:
        (server,) = client.pools_servers_list("observatory")
        lines = lines.replace("https://allocator.example.org", service.url).replace(
            '"lab"', '"observatory"'
        )
        exec(lines, {"key": observatory, "server_id": server["id"]})
        changed = client.pools_servers_show("observatory", server["id"]).body
    assert changed["labels"] == {"zone": "b"}
    assert "in the decision whose generation is at least" in capsys.readouterr().out
