"""`alloc`: how it ends, what it sends, and what it verifies."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from allocator_client.cli.words import reason_text
from launcher.folders import PROJECT
from tests.client.answers import POOL, POOLS, TENANTS, decision, process, row
from tests.client.test_transport import JSON, page, refusal


@pytest.mark.parametrize("code", ["auth.expired", "auth.revoked", "auth.invalid"])
def test_a_key_that_is_not_usable_ends_with_2_and_what_to_do(alloc, told, code):
    told(refusal(401, code))
    done = alloc("pools")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"alloc: No such resource. (401 {code} at /demand/gpu)",
        "log in again: alloc login; request r-1",
    ]


def test_a_refusal_is_two_lines_with_code_pointer_and_request(alloc, told):
    told(refusal(422, "resource.unknown"))
    done = alloc("submit", "lab", "--demand", "gpu=1", "--tasks", "1", "--yes")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "alloc: No such resource. (422 resource.unknown at /demand/gpu)",
        "request r-1",
    ]


def test_a_service_that_is_down_ends_with_3(alloc, told):
    service = told()
    service.server.shutdown()
    service.server.server_close()
    done = alloc("pools")
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr.startswith(f"alloc: {service.url} cannot be reached")
    assert done.stderr.count("\n") == 1


def test_an_overload_is_waited_for_and_then_ends_with_3(alloc, told):
    busy = refusal(503, "database.busy", **{"Retry-After": "0"})
    service = told(busy, busy, POOLS)
    assert alloc("pools").exit_code == 0
    service.answers[:] = [busy] * 4
    assert alloc("pools").exit_code == 3


@pytest.mark.parametrize(
    "arguments",
    [("submit", "lab", "--demand", "cpu"), ("submit", "lab", "--demand", "cpu=1,cpu=2"),
     ("submit", "lab", "--demand", "cpu=1", "--tasks", "-1"), ("what-if", "lab"), ("nonsense",),
     ("submit", "lab", "--demand", "cpu=1"), ("submit", "lab", "--demand", "cpu=1", "--yes"),
     ("set", "lab", "a", "tasks=many"), ("set", "lab", "a"),
     ("submit", "lab", "--demand", "cpu=1", "--unlimited", "--tasks", "1"),
     ("share", "lab", "--all", "--tenant", "physics"),
     ("what-if", "lab", "--add", "a", "tasks=many"), ("usage", "lab", "--from", "yesterday"),
     ("usage", "lab", "--entries", "--step", "P1D"), ("decision", "..",), ("share", "--nonsense"),
     ("decision", "lab", "--watch", "--csv")],
)  # fmt: skip
def test_wrong_usage_is_two_lines_and_asks_nothing(alloc, told, arguments):
    service = told(TENANTS)
    done = alloc(*arguments)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert done.stderr.startswith("alloc: ")
    assert done.stderr.count("\n") <= 2
    assert [path for _, path, _ in service.asked if "tenants" not in path] == []


def test_a_key_of_several_pools_has_to_name_one(alloc, told):
    told(page([POOL, {**POOL, "slug": "campus"}], None, last=True))
    done = alloc("share")
    assert (done.exit_code, "Name a pool: lab, campus" in done.stderr) == (2, True)


def test_a_wait_in_vain_ends_with_4(alloc, told):
    made = {"id": "id-a", "pool": "lab", "name": "a", "tasks": 3, "conditions": []}
    told((201, {**JSON, "Pool-Generation": "9"}, made), decision(8))
    done = alloc(
        *("submit", "lab", "--demand", "cpu=1", "--unlimited", "--name", "a"),
        *("--yes", "--wait", "--timeout", "0"),
    )
    assert (done.exit_code, done.stdout) == (4, "")
    said = "After 0 s there is no decision of generation 9 of lab. a is submitted all the same."
    assert said in done.stderr


@pytest.mark.parametrize(
    ("limited_by", "said"),
    [
        ("task_limit", "It has all the tasks that it asked for."),
        *(
            (reason, f"{reason_text(reason)} More: alloc why lab a")
            for reason in ("resource:cpu", "level")
        ),
    ],
)
def test_a_submission_waits_for_the_decision_that_includes_it(alloc, told, limited_by, said):
    made = {
        "id": "id-a",
        "pool": "lab",
        "tenant": "physics",
        "name": "a",
        "tasks": 3,
        "conditions": [],
    }
    got = {**row("a", 3), "limited_by": limited_by}
    service = told(
        *(
            (201, {**JSON, "Pool-Generation": "9"}, made),
            refusal(404, "decision.none"),
            decision(8),
        ),
        *(decision(9, "r-9"), page([row("b", 1), got], None, last=True)),
        *((200, JSON, POOL), TENANTS),
    )
    done = alloc(
        "submit", "lab", "--demand", "cpu=1", "--name", "a", "--tasks", "3", "--yes", "--wait"
    )
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["a: 3 of 3 tasks, 0.6 cores.", said]
    assert service.asked[4][1] == "/api/v1/runs/r-9/allocations/?limit=1000"


def test_a_watch_shows_each_decision_once_outlives_the_service_and_ends_at_ctrl_c(told):
    rows = page([row("analysis", 10)], None, last=True)
    pool = (200, JSON, POOL)
    told(
        *(decision(8), pool, rows, decision(8)),
        (502, {}, b""),
        *[refusal(503, "database.busy", **{"Retry-After": "61"})] * 2,
        *(decision(9, "r-2"), pool, rows),
        *[decision(9, "r-2")] * 1000,
    )
    with process("decision", "lab", "--watch", "--every", "0.1") as watching:
        seen = ""
        while "generation 9" not in seen and (line := watching.stdout.readline()):
            seen += line
        time.sleep(0.5)
        watching.send_signal(signal.SIGINT)
        rest, errors = watching.communicate(timeout=10)
    assert watching.returncode == 130
    assert (seen + rest).count("generation 8") == (seen + rest).count("generation 9") == 1
    assert "Traceback" not in errors


def test_a_reader_that_has_seen_enough_is_no_error(told):
    rows = [{"slug": f"pool-{n}", **POOL} for n in range(1000)]
    told(*[page(rows, f"c{n}", last=False) for n in range(50)], POOLS)
    with process("pools", "--csv") as writing, process("pools") as tables:
        for each in (writing, tables):
            each.stdout.readline()
            each.stdout.close()
            assert "Traceback" not in each.stderr.read()


def test_a_proof_in_a_file_is_verified_here_and_a_forgery_is_not(tmp_path, home):
    problem = {
        "resources": ["cpu"], "servers": [{"capacity": {"cpu": 4}}], "tenants": [{"name": "a"}],
        "workloads": [{"tenant": "a", "name": "w", "demand": {"cpu": 1}}], "policy": {"name": "drf"},
    }  # fmt: skip
    file = tmp_path / "problem.json"
    file.write_text(json.dumps(problem))
    solve = [sys.executable, "-m", "policies", "solve", str(file), "--json"]
    answer = json.loads(subprocess.run(solve, capture_output=True, check=True, cwd=PROJECT).stdout)
    proof = tmp_path / "proof.json"
    for forged, code, said in ((False, 0, '"valid": true'), (True, 1, '"valid": false')):
        if forged:
            answer["allocations"][0]["tasks"] = 5.0
        proof.write_text(json.dumps({"input": problem, "answer": answer}))
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path)
            paths = f"{PROJECT / 'client'}:{PROJECT}"
            command = [
                sys.executable,
                "-P",
                "-m",
                "allocator_client.cli.main",
                "verify",
                str(proof),
            ]
            done = subprocess.run(
                [*command, "--json"], env={**os.environ, "PYTHONPATH": paths},
                capture_output=True, text=True, check=False,
            )  # fmt: skip
        assert (done.returncode, said in done.stdout) == (code, True), done


def test_without_the_verifier_it_says_what_to_install(tmp_path, told):
    service = told()
    with process("verify", "run", cwd=tmp_path) as done:
        out, error = done.communicate(timeout=10)
    assert (done.returncode, out, service.asked) == (2, "", [])
    assert "pip install 'allocator-client[verify]'" in error


def test_a_change_of_nothing_known_is_refused_before_anything_is_simulated(alloc, told):
    service = told(TENANTS, page([], None, last=True))
    done = alloc("what-if", "lab", "--set", "nothing", "tasks=1")
    assert (done.exit_code, "There is no workload nothing of physics" in done.stderr) == (1, True)
    assert {method for method, _, _ in service.asked} == {"GET"}


def test_several_changes_of_one_workload_are_one_and_keep_the_rest_of_its_demand(alloc, told):
    workload = {"id": "id-a", "name": "a", "demand": {"cpu": 1, "memory": "4Gi"}}
    failed = {
        "id": "s",
        "status": "failed",
        "result": None,
        "error": {"code": "x", "detail": "No."},
    }
    service = told(
        TENANTS, page([workload], None, last=True), (202, JSON, {"id": "s"}), (200, JSON, failed)
    )
    done = alloc("what-if", "lab", "--set", "a", "tasks=none", "--set", "a", "cpu=2,priority=-3")
    assert (done.exit_code, "No. (x)" in done.stderr) == (1, True)
    assert json.loads(service.bodies[2])["workloads"]["change"] == [
        {"id": "id-a", "tasks": None, "priority": -3, "demand": {"cpu": "2", "memory": "4Gi"}}
    ]


def test_a_submission_sends_what_was_written(alloc, told):
    made = {"id": "id-a", "pool": "lab", "name": "a", "tasks": 3,
            "conditions": [{"type": "unsatisfiable", "reason": "no_server_large_enough",
                            "detail": "One task is too large."}]}  # fmt: skip
    service = told((201, {**JSON, "Pool-Generation": "9"}, made))
    done = alloc(
        "submit", "lab", "--demand", "cpu=250m,memory=4Gi", "--tasks", "3", "--name", "a",
        "--select", "zone=a", "--select", "zone=b,disk=ssd", "--priority", "-1", "--yes",
    )  # fmt: skip
    assert (done.exit_code, done.stdout) == (0, "Submitted a as generation 9 of lab.\n")
    assert "it cannot run. One task is too large." in done.stderr
    assert json.loads(service.bodies[0]) == {
        "name": "a", "demand": {"cpu": "250m", "memory": "4Gi"}, "tasks": 3, "priority": -1,
        "server_selector": {"zone": ["a", "b"], "disk": ["ssd"]},
    }  # fmt: skip


def test_a_submission_of_gangs_has_pieces(alloc, told):
    made = {"id": "id-a", "pool": "lab", "name": "a", "tasks": 3, "conditions": []}
    service = told((201, {**JSON, "Pool-Generation": "9"}, made))
    done = alloc(
        "submit", "lab", "--demand", "gpu=8", "--pieces", "4", "--per-server", "1", "--together", "rack",
        "--at-least", "2", "--minimum-run", "PT10M", "--tasks", "3", "--name", "a", "--yes",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert json.loads(service.bodies[0]) == {
        "name": "a", "pieces": [{"count": 4, "demand": {"gpu": "8"}}], "per_server": 1,
        "together": "rack", "at_least": 2, "minimum_run": "PT10M", "tasks": 3, "priority": 0,
        "server_selector": {},
    }  # fmt: skip


@pytest.mark.parametrize("reason", ["AssocGrpCpuLimit", ""])
def test_why_names_the_schedulers_reason_for_jobs_that_wait(alloc, told, reason):
    explanation = {
        "sentence": "physics runs 3 tasks.", "workloads": [], "binding": [], "counterfactuals": [],
        "blocked": {"since": "2027-01-04T09:00:00+01:00", "pending_tasks": 3, "reason": reason},
    }  # fmt: skip

    def shown(**changes):
        told(
            decision(9),
            (200, JSON, explanation | changes),
            (200, JSON, POOL),
            page([row("w", 3)], None, last=True),
        )
        return alloc("why", "lab", "--tenant", "physics").output

    said = shown()
    assert "although more was decided than is used" in said, said
    assert f"The scheduler's reason: {reason or 'none stated'}." in said
    assert "although" not in shown(blocked=None)


@pytest.mark.parametrize(
    ("jobs", "servers", "expected"),
    [
        (
            ["17"],
            ["n1"],
            [
                "n1 is held for job 17. Jobs that still run there: 2.",
                "Job 17 above the decision ends after 4 January 2027, 09:00 UTC.",
                "Job 17 above the decision was ended for ml. It queues again.",
            ],
        ),
        (
            ["Xa", "18"],
            ["n1", "n2"],
            [
                "n1, n2 are held for jobs Xa, 18. Jobs that still run there: 2.",
                "Jobs Xa, 18 above the decision end after 4 January 2027, 09:00 UTC.",
                "Jobs Xa, 18 above the decision were ended for ml. They queue again.",
            ],
        ),
    ],
)
def test_why_counts_jobs_that_are_held_for_or_end(alloc, told, jobs, servers, expected):
    end = {"jobs": jobs, "ends_at": "2027-01-04T09:00:00Z", "heir": "", "ended": False}
    explanation = {
        "sentence": "physics runs 3 tasks.", "workloads": [], "binding": [], "counterfactuals": [],
        "blocked": None,
        "holds": [{"jobs": jobs, "servers": servers, "count": len(servers), "beside": [{"jobs": 2}]}],
        "ending": [end, end | {"heir": "ml", "ended": True}],
    }  # fmt: skip
    rows = page([row("w", 3)], None, last=True)
    told(decision(9), (200, JSON, explanation), (200, JSON, POOL), rows)
    lines = alloc("why", "lab", "--tenant", "physics").output.splitlines()
    assert [line for line in lines if "held" in line or "above" in line] == expected


def test_why_has_the_sentences_of_the_service(alloc, told):
    explanation = {
        "sentence": "physics runs nothing.", "binding": [], "counterfactuals": [], "blocked": None,
        "budgets": [],
        "workloads": [
            {"workload": "w", "limited_by": "limit:group:ml", "detail": "The budget is spent."},
            {"workload": "v", "limited_by": "limit:group:ml"},  # of an older service
        ],
    }  # fmt: skip
    rows = [row(name, 0) | {"limited_by": "limit:group:ml"} for name in ("w", "v")]
    told(decision(9), (200, JSON, explanation), (200, JSON, POOL), page(rows, None, last=True))
    lines = alloc("why", "lab", "--tenant", "physics").output.splitlines()
    assert [line.split("%")[-1].strip() for line in lines if line[:2] in ("w ", "v ")] == [
        "The budget is spent.", "The limit of the group ml is reached.",
    ]  # fmt: skip


def test_the_decision_shows_guaranteed_tasks_and_what_is_unmet(alloc, told):
    status, headers, found = decision(9)
    found["run"]["summary"] = {
        "utilization": {},
        "guarantees_unmet": [
            {
                "node": {"group": "ml"}, "where": {"gpu": "h100"}, "amount": {"gpu": 8},
                "met": 0.75, "limited_by": ["resource:gpu"],
            },
            {"node": {"tenant": "ada"}, "own_servers": True, "met": 0.5, "limited_by": ["lend"]},
        ],
    }  # fmt: skip
    rows = [row("w", 3) | {"floor": 4.0, "floor_met": 0.75}, row("v", 2)]
    told((status, headers, found), (200, JSON, POOL), page(rows, None, last=True))
    lines = alloc("decision", "lab").output.splitlines()
    assert lines[2:4] == [
        "The guarantee of group ml (8 gpu on gpu=h100): 75.0 % met, limited by gpu.",
        "The own servers of ada: 50.0 % met, limited by lend.",
    ]
    assert [line.split()[2:4] for line in lines if line.startswith("physics")] == [
        ["3", "4"], ["2", "-"],
    ]  # fmt: skip
    assert "TASKS  GUARANTEED" in " ".join(lines)
