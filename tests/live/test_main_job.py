"""The main job: contributed servers and demands in, a fair and proven decision out."""

import time

import pytest

from tests.live.google import TABLE_1, drawn_servers, exact, users_at_the_start

LAB = {
    "name": "Research lab",
    "resources": [{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"}],
    "policy": {"name": "drfh"},
}


def opened(operator, slug, **changes):
    operator.post("/api/v1/pools/", {"slug": slug, **LAB, **changes})
    return f"/api/v1/pools/{slug}"


def registered(operator, *slugs):
    for slug in slugs:
        operator.post("/api/v1/tenants/", {"slug": slug, "name": slug.title()})


def test_figure_2_from_empty_pool_to_verified_decision(operator, decided):
    registered(operator, "fig2-u1", "fig2-u2")
    pool = opened(operator, "fig2", weights="explicit")
    for tenant, name, cpu, memory in [
        ("fig2-u1", "high-memory", 2, 12),
        ("fig2-u2", "high-cpu", 12, 2),
    ]:
        operator.post(
            f"{pool}/servers/",
            {"name": name, "contributed_by": tenant, "capacity": {"cpu": cpu, "memory": memory}},
        )
    operator.post(
        f"{pool}/workloads/",
        {"tenant": "fig2-u1", "name": "analysis", "demand": {"cpu": "200m", "memory": "1Gi"}},
    )
    written = operator.post(
        f"{pool}/workloads/",
        {"tenant": "fig2-u2", "name": "simulation", "demand": {"cpu": 1, "memory": 0.2}},
    )
    decision = decided("fig2", int(written.headers["Pool-Generation"]))
    rows = operator.get(f"{pool}/allocations/").body["results"]
    assert [row["tasks"] for row in rows] == pytest.approx([10, 10], rel=1e-9)
    assert [row["weighted_share"] for row in rows] == pytest.approx([5 / 7, 5 / 7], rel=1e-9)
    run = decision["run"]["id"]
    assert operator.post(f"/api/v1/runs/{run}/verify/", {}).body["valid"] is True

    replay = operator.get(f"/api/v1/runs/{run}/input/").body
    again = operator.post("/api/v1/evaluations/", replay).body
    assert [row["tasks"] for row in again["allocations"]] == [row["tasks"] for row in rows]


def test_googles_first_instant_is_decided_and_proven(operator, decided):
    """245 users and their tasks on 2,000 servers drawn from Table 1 (DRFH §6.2)."""
    users = users_at_the_start()
    slugs = [f"google-{number:03d}" for number in range(len(users))]
    for slug in slugs:
        operator.post("/api/v1/tenants/", {"slug": slug, "name": slug})
    pool = opened(operator, "google", weights="explicit")
    operator.post(
        f"{pool}/servers/",
        [
            {"name": f"kind-{kind}", "count": number, "capacity": {"cpu": cpu, "memory": memory}}
            for kind, (number, cpu, memory) in enumerate(drawn_servers(2000, seed=7))
        ],
    )
    written = operator.post(
        f"{pool}/workloads/",
        [
            {
                "tenant": slug,
                "name": "t0",
                "tasks": int(user["tasks"]),
                "demand": {"cpu": exact(user["cpu_mean"]), "memory": exact(user["mem_mean"])},
            }
            for slug, user in zip(slugs, users, strict=True)
            if float(user["cpu_mean"]) > 0 or float(user["mem_mean"]) > 0
        ],
    )
    run = decided("google", int(written.headers["Pool-Generation"]))["run"]
    assert (run["summary"]["tenants"], run["summary"]["servers"]) == (245, 2000)
    assert max(run["summary"]["utilization"].values()) > 0.99  # contention: something is full
    verdict = operator.post(f"/api/v1/runs/{run['id']}/verify/", {}).body
    assert [check for check in verdict["checks"] if not check["holds"]] == []
    assert verdict["valid"] is True
    rows = operator.pages(f"{pool}/allocations/?limit=1000")
    limited = {row["limited_by"].partition(":")[0] for row in rows}
    assert limited <= {"task_limit", "resource", "level", "no_eligible_server"}
    shares = [row["weighted_share"] for row in rows if row["limited_by"] != "task_limit"]
    assert min(shares) == pytest.approx(max(shares), rel=1e-9)  # all who wait are equally far


def test_the_whole_of_table_1_is_in_force_within_two_seconds_of_the_last_change(
    operator, decided, capsys
):
    """900 tenants, 12,583 servers in ten classes: few rows are stored, and the wait is short."""
    tenants = [f"t1-{number:03d}" for number in range(900)]
    for tenant in tenants:
        operator.post("/api/v1/tenants/", {"slug": tenant, "name": tenant})
    pool = opened(operator, "table1")
    owners = iter(range(10**6))
    operator.post(
        f"{pool}/servers/",
        [
            {
                "name": f"server-{next_owner:05d}",
                "contributed_by": tenants[next_owner % 900],
                "capacity": {"cpu": cpu, "memory": memory},
            }
            for number, cpu, memory in TABLE_1
            for next_owner in (next(owners) for _ in range(number))
        ],
    )
    operator.post(
        f"{pool}/workloads/",
        [
            {
                "tenant": tenant,
                "name": "work",
                "demand": {"cpu": (7 * index % 90 + 10) / 1000, "memory": (index % 90 + 10) / 1000},
            }
            for index, tenant in enumerate(tenants)
        ],
    )
    last = operator.post(
        f"{pool}/workloads/",
        {"tenant": tenants[0], "name": "more", "demand": {"cpu": 0.05, "memory": 0.01}},
    )
    committed = time.monotonic()
    decision = decided("table1", int(last.headers["Pool-Generation"]))
    with capsys.disabled():
        print(
            f"\n900 tenants x 12,583 servers: in force after {time.monotonic() - committed:.2f} s"
        )
    summary = decision["run"]["summary"]
    assert (summary["tenants"], summary["servers"], summary["server_classes"]) == (900, 12583, 10)
    assert summary["gap"] <= 1e-9
    placements = operator.pages(f"{pool}/placements/?limit=1000")
    assert len(placements) <= 901 * 10  # never servers x tenants
    verdict = operator.post(f"/api/v1/runs/{decision['run']['id']}/verify/", {}).body
    assert verdict["valid"] is True
