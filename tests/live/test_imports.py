"""A real cluster is imported by the commands, decided by a real worker, and the decision proven."""

from decimal import Decimal

import pytest

from tests.live.alibaba import nodes_csv, workloads_csv

CLUSTER = {
    "slug": "alibaba",
    "name": "Alibaba 2023",
    "weights": "explicit",
    "resources": [
        {"name": "cpu", "unit": "core"},
        {"name": "memory", "unit": "GiB"},
        {"name": "gpu", "unit": "gpu"},
    ],
    "policy": {"name": "drfh"},
}


@pytest.mark.data
def test_alibabas_cluster_is_imported_decided_and_proven(service, operator, decided, tmp_path):
    nodes, workloads = tmp_path / "nodes.csv", tmp_path / "workloads.csv"
    nodes.write_text(nodes_csv())
    workloads.write_text(workloads_csv())
    rows = len(workloads.read_text().splitlines()) - 1
    operator.post("/api/v1/pools/", CLUSTER)

    told = service.manage("import_nodes", "alibaba", str(nodes), "--dry-run").splitlines()
    assert len(told) == 1523 + 1
    imported = service.manage("import_nodes", "alibaba", str(nodes))
    assert imported.startswith("1523 added, 0 changed, 0 unchanged, 0 refused, 0 skipped")
    imported = service.manage(
        "import_workloads", "alibaba", str(workloads), "--register-tenants"
    ).splitlines()[-1]
    assert imported.startswith(f"{rows} added, 0 changed, 0 unchanged, 0 refused, 0 skipped")

    pool = "/api/v1/pools/alibaba"
    generation = operator.get(f"{pool}/").body["generation"]
    for command, path, number in [
        ("import_nodes", nodes, 1523),
        ("import_workloads", workloads, rows),
    ]:
        again = service.manage(command, "alibaba", str(path))
        assert again.startswith(f"0 added, 0 changed, {number} unchanged, 0 refused")
    assert operator.get(f"{pool}/").body["generation"] == generation

    submitted = operator.pages(f"{pool}/workloads/?limit=1000")
    assert sum(workload["tasks"] for workload in submitted) == 8152
    servers = operator.pages(f"{pool}/servers/?limit=1000")
    totals = [
        sum(Decimal(str(row["capacity"][name])) for row in servers)
        for name in ("cpu", "memory", "gpu")
    ]
    assert totals == [Decimal(125514), Decimal(597684), Decimal(6212)]

    run = decided("alibaba", generation, 120)["run"]
    assert (run["summary"]["tenants"], run["summary"]["servers"]) == (10, 1523)
    verdict = operator.post(f"/api/v1/runs/{run['id']}/verify/", {}).body
    assert [check for check in verdict["checks"] if not check["holds"]] == []
    assert verdict["valid"] is True

    models = {row["name"]: row["labels"].get("model") for row in servers}
    allowed = {row["name"]: row["server_selector"].get("model") for row in submitted}
    selective = 0
    for row in operator.pages(f"{pool}/placements/?limit=1000"):
        wanted = allowed[row["workload"]["name"]]
        if wanted is not None:
            selective += 1
            first = row["server"] if row.get("server") else row["servers"]["first"]
            assert models[first] in ([wanted] if isinstance(wanted, str) else wanted)
    assert selective > 0
