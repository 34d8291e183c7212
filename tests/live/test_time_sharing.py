"""Time-sharing on the real clock, with the service's own processes."""

import time
from datetime import datetime, timedelta

PERIOD = 8
RESOURCES = [{"name": "cpu", "unit": "core"}, {"name": "memory", "unit": "GiB"}]


def test_a_change_is_in_force_at_the_border_of_a_slot_and_metered_from_it_on(operator, decided):
    """The thesis' example takes turns in slots of 2 and 6 seconds; a third tenant comes."""
    turns = "/api/v1/pools/clock-turns"
    for slug in ("turns-u1", "turns-u2", "turns-u3"):
        operator.post("/api/v1/tenants/", {"slug": slug, "name": slug})
    policy = {"name": "tda", "options": {"period_seconds": PERIOD}}
    body = {"slug": "clock-turns", "name": "Turns", "resources": RESOURCES, "policy": policy}
    operator.post("/api/v1/pools/", body | {"weights": "explicit", "decision_interval": "PT2S"})
    operator.post(f"{turns}/servers/", {"name": "s1", "capacity": {"cpu": 15, "memory": 15}})
    for tenant, name, cpu, memory in [("turns-u1", "wide", 5, 2), ("turns-u2", "tall", 3, 3.5)]:
        written = submit(operator, turns, tenant, name, cpu, memory)
    first = decided("clock-turns", written)["run"]

    wanted = submit(operator, turns, "turns-u3", "small", 1, 1)
    second = decided("clock-turns", wanted)["run"]
    borders = [
        (instant(first["effective_from"]) + timedelta(seconds=turn * PERIOD + row["end"]))
        for turn in range(4)
        for row in operator.get(f"/api/v1/runs/{first['id']}/schedule/").body["timetable"]
    ]
    assert instant(second["effective_from"]) in borders
    assert instant(second["finished_at"]) < instant(second["effective_from"])

    border = instant(second["effective_from"])
    entries = metered_past(operator, border)
    assert {run for run, _, start, _ in entries if start == border} == {second["id"]}
    assert first["id"] not in {run for run, _, start, _ in entries if start > border}
    assert {run for run, _, _, end in entries if end == border} == {first["id"]}
    # A use that is the same on both sides of the border goes on in its entry.
    before, after = tasks_until(operator, first, border), tasks_until(operator, second, None)
    changed = {tenant for tenant in before | after if before.get(tenant) != after.get(tenant)}
    assert changed >= {"turns-u3"}
    across = {tenant for _, tenant, start, end in entries if start < border < end}
    assert across & changed == set()


def tasks_until(operator, run, border):
    """Return the tasks by tenant in the slot of a run that ends at the border, or in its first slot."""
    document = operator.get(f"/api/v1/runs/{run['id']}/schedule/").body
    rows = document["timetable"]
    if border is not None:
        ends = (border - instant(run["effective_from"])).total_seconds() % PERIOD or PERIOD
        rows = [row for row in rows if row["end"] == ends]
    return {
        each["tenant"]: each["tasks"] for each in document["slots"][rows[0]["slot"]]["allocations"]
    }


def submit(operator, pool, tenant, name, cpu, memory):
    workload = {"tenant": tenant, "name": name, "demand": {"cpu": cpu, "memory": memory}}
    written = operator.post(f"{pool}/workloads/", workload)
    return int(written.headers["Pool-Generation"])


def instant(text):
    return datetime.fromisoformat(text)


def metered_past(operator, border):
    """Return the run, tenant, start and end of the pool's entries, once some begin at the border."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        rows = operator.pages("/api/v1/ledger-entries/?pool=clock-turns&kind=usage")
        entries = [
            (row["run"], row["tenant"], instant(row["start"]), instant(row["end"])) for row in rows
        ]
        if any(start == border for _, _, start, _ in entries):
            return entries
        time.sleep(0.2)
    raise AssertionError(f"nothing is metered from {border} on")
