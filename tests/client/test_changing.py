"""`alloc workloads`, `set`, `withdraw`, `slots` and `share`: what they send, ask and print."""

import json
import os
from typing import Any

import pytest

from allocator_client.cli.changing import _cause as cause_text
from tests.client.answers import POOL, TENANTS, decision, process, row
from tests.client.test_transport import JSON, page, refusal

WORKLOAD = {
    "id": "id-a", "pool": "lab", "tenant": "physics", "name": "a", "demand": {"cpu": 0.2, "gpu": 0},
    "tasks": 3, "priority": 0, "state": "active", "version": 4, "server_selector": {},
}  # fmt: skip
LISTED = page([WORKLOAD], None, last=True)
SHOWN = (200, {**JSON, "ETag": '"4"'}, WORKLOAD)
TRIED: dict[str, Any] = {
    "id": "s", "status": "succeeded", "error": None, "result": {
        "tenants": [], "summary": None, "workloads": [{"tenant": "physics", "workload": "a",
            "before": {"tasks": 3, "limited_by": "task_limit"},
            "after": {"tasks": 9, "limited_by": "resource:cpu"}}]},
}  # fmt: skip
SIMULATED = ((202, JSON, {"id": "s"}), (200, JSON, TRIED))
WORDS = "At today's prices: from 1.20 EUR to 2.40 EUR per hour."
PRICED = {**TRIED, "result": {**TRIED["result"], "cost": {"words": WORDS}}}
SUBMITTED = ("submit", "lab", "--demand", "cpu=1", "--name", "a")
CHANGED = (200, {**JSON, "Pool-Generation": "1234"}, {**WORKLOAD, "tasks": 9})


def at_a_terminal(answer, *arguments):
    """`alloc` in a terminal, where a person types an answer; returns its exit code and output."""
    person, terminal = os.openpty()
    try:
        os.write(person, f"{answer}\n".encode())
        with process(*arguments, stdin=terminal) as done:
            out, error = done.communicate(timeout=20)
    finally:
        os.close(person)
        os.close(terminal)
    return done.returncode, out, error


def writes(service):
    return [
        (method, path)
        for method, path, _ in service.asked
        if method != "GET" and not path.endswith("/simulations/")
    ]


def test_workloads_are_listed_with_what_they_run(alloc, told):
    unlimited = {**WORKLOAD, "id": "id-b", "name": "b", "tasks": None}
    told(
        *((200, JSON, POOL), decision(9), page([row("a", 3)], None, last=True)),
        page([WORKLOAD, unlimited], None, last=True),
    )
    assert alloc("workloads", "lab").stdout.splitlines() == [
        "TENANT   WORKLOAD  RUNS        OF  ONE TASK   PRIORITY  STATE   LIMITED BY",
        "physics  a            3         3  0.2 cores         0  active  All of cpu is used up on the"
        " servers it may run on.",
        "physics  b            -  no limit  0.2 cores         0  active  -",
    ]


def test_a_workload_is_set_with_the_version_that_was_shown(alloc, told):
    service = told(TENANTS, LISTED, LISTED, SHOWN, CHANGED)
    done = alloc("set", "lab", "a", "tasks=9,cpu=2", "--yes")
    assert (done.exit_code, done.stdout) == (0, "Changed a as generation 1,234 of lab.\n"), (
        done.output
    )
    assert json.loads(service.bodies[-1]) == {"tasks": 9, "demand": {"cpu": "2"}}
    assert service.asked[-1][2]["If-Match"] == '"4"'


def test_the_cost_is_shown_where_the_service_states_it(told):
    told(TENANTS, LISTED, LISTED, SIMULATED[0], (200, JSON, PRICED))
    _, out, _ = at_a_terminal("n", "set", "lab", "a", "tasks=9")
    assert WORDS in out


def test_a_budget_before_a_step_is_named():
    cause = {"kind": "budget", "action": None, "workload": None, "group": None, "resource": None}
    named = cause | {"action": "exhaust", "group": "ml", "resource": "gpu"}
    assert [
        cause_text(each) for each in (cause, named, named | {"action": "open", "group": None})
    ] == [
        "a budget of another member or group",
        "budget of gpu of group ml exhausted",
        "budget of gpu of yours opened again",
    ]


def test_a_what_if_names_the_guarantees_that_are_not_met(alloc, told):
    of_a = {"node": {"tenant": "a"}, "where": {"gpu": "h100"}, "amount": {"gpu": 8},
            "limited_by": ["resource:gpu"]}  # fmt: skip
    own = {"node": {"group": "ml"}, "own_servers": True, "met": 0.25, "limited_by": ["lend"]}
    of_b = {**of_a, "node": {"tenant": "b"}, "where": {}, "met": 0.5}
    summary = {
        "before": {"guarantees_unmet": [{**of_a, "met": 0.75}, of_b]},
        "after": {"guarantees_unmet": [{**of_a, "met": 0.5}, own]},
    }
    found = {**TRIED, "result": {**TRIED["result"], "summary": summary}}
    server = page([{"id": "id-s", "name": "rack-1"}], None, last=True)
    told(server, SIMULATED[0], (200, JSON, found), (200, JSON, POOL))
    lines = alloc("what-if", "lab", "--drain-server", "rack-1").stdout.splitlines()
    start = lines.index("Guarantees that are not met after the change or before:") + 1
    assert lines[start:] == [
        "  The guarantee of a (8 gpu on gpu=h100): 50.0 % met, limited by gpu; before: 75.0 % met,"
        " limited by gpu.",
        "  The own servers of group ml: 25.0 % met, limited by lend; before: met.",
        "  The guarantee of b (8 gpu): met; before: 50.0 % met, limited by gpu.",
    ]
    met = {**TRIED, "result": {**TRIED["result"], "summary": {"before": {}, "after": {}}}}
    told(server, SIMULATED[0], (200, JSON, met))
    out = alloc("what-if", "lab", "--drain-server", "rack-1").stdout
    assert "Guarantees" not in out


def test_a_drained_server_lists_the_tasks_of_several_pieces_that_end(alloc, told):
    detail = "2 tasks of mpi end: 2 of their 8 pieces are on this server."
    lost = [{"tenant": "physics", "workload": "mpi", "detail": detail}]
    found = {**TRIED, "result": {**TRIED["result"], "lost": lost}}
    service = told(
        page([{"id": "id-s", "name": "rack-1"}], None, last=True), SIMULATED[0], (200, JSON, found)
    )
    done = alloc("what-if", "lab", "--drain-server", "rack-1", "--add-server", "cpu=8")
    assert done.exit_code == 0, done.output
    assert json.loads(service.bodies[1])["servers"] == {
        "add": [{"name": "what-if-1", "capacity": {"cpu": "8"}}],
        "drain": ["id-s"],
    }
    lines = done.stdout.splitlines()
    assert lines[lines.index("Tasks of several pieces that end:") + 1] == f"  physics: {detail}"
    told(page([], None, last=True))
    assert (
        "There is no server rack-2 in lab."
        in alloc("what-if", "lab", "--drain-server", "rack-2").stderr
    )


@pytest.mark.parametrize("answer", ["y", "n"])
def test_the_effect_is_shown_before_a_person_is_asked(told, answer):
    service = told(TENANTS, LISTED, LISTED, *SIMULATED, SHOWN, CHANGED)
    code, out, error = at_a_terminal(answer, "set", "lab", "a", "tasks=9")
    assert "physics  a                    3      9  All of cpu is used up" in out
    assert "Change a? [y/N]" in out
    assert (code, len(writes(service))) == ((0, 1) if answer == "y" else (1, 0))
    assert ("Nothing was changed." in error) is (answer == "n")


@pytest.mark.parametrize(
    ("answers", "arguments"),
    [((TENANTS, LISTED, LISTED), ("set", "lab", "a", "tasks=none")), ((), SUBMITTED),
     ((), (*SUBMITTED, "--unlimited"))],
)  # fmt: skip
def test_no_limit_of_tasks_is_a_question_of_its_own(told, answers, arguments):
    service = told(*answers, *SIMULATED)
    code, out, _ = at_a_terminal("n", *arguments)
    assert (code, "May a run as many tasks as possible?" in out) == (1, True)
    assert writes(service) == []


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_submission_is_shown_with_its_cost_before_a_person_is_asked(told, answer):
    made = (201, {**JSON, "Pool-Generation": "9"}, {**WORKLOAD, "conditions": []})
    service = told(SIMULATED[0], (200, JSON, PRICED), made)
    gang = ("--pieces", "4", "--per-server", "1", "--together", "rack", "--at-least", "2")
    code, out, error = at_a_terminal(
        answer, *SUBMITTED, *gang, "--tasks", "9", "--select", "zone=a", "--minimum-run", "PT10M"
    )
    shown = out[: out.index("Submit a? [y/N]")]
    assert "physics  a                    3      9  All of cpu is used up" in shown
    assert WORDS in shown
    bodies = [json.loads(body) for body in service.bodies if body]
    (tried,) = bodies[0]["workloads"]["submit"]
    if answer == "n":
        assert (code, "Nothing was changed." in error, len(bodies)) == (1, True, 1)
        return
    assert (code, "Submitted a as generation 9 of lab." in out) == (0, True)
    assert bodies[1] == {**tried, "minimum_run": "PT10M"}


@pytest.mark.parametrize(
    ("answers", "arguments"),
    [((TENANTS, LISTED), ("withdraw", "lab", "a")), ((), (*SUBMITTED, "--tasks", "9"))],
)
def test_a_script_has_to_say_yes(alloc, told, answers, arguments):
    service = told(*answers, *SIMULATED)
    done = alloc(*arguments)
    assert (done.exit_code, "add --yes" in done.stderr) == (2, True)
    assert writes(service) == []


def test_a_submission_that_cannot_be_computed_is_refused_before_it_is_made(told):
    error = {"code": "workload.exists", "detail": "The tenant already has a workload of this name."}
    failed = {**TRIED, "status": "failed", "result": None, "error": error}
    service = told(SIMULATED[0], (200, JSON, failed))
    code, _, stderr = at_a_terminal("y", *SUBMITTED, "--tasks", "9")
    assert (code, "(workload.exists)" in stderr) == (1, True)
    assert writes(service) == []


@pytest.mark.parametrize("at_once", [True, False])
def test_a_tenants_first_workload_has_no_preview(told, at_once):
    """An operator submits for a tenant that is no member of the pool yet, which admits it."""
    error = {"code": "tenant.unknown", "detail": 'The pool has no member "new".'}
    failed = {**TRIED, "status": "failed", "result": None, "error": error}
    tried = [refusal(422, "tenant.unknown")] if at_once else [SIMULATED[0], (200, JSON, failed)]
    made = (201, {**JSON, "Pool-Generation": "9"}, {**WORKLOAD, "conditions": []})
    service = told(*tried, (200, JSON, {"slug": "new"}), made)
    code, out, stderr = at_a_terminal("y", *SUBMITTED, "--tasks", "9", "--tenant", "new")
    assert (code, "no member of the pool yet" in stderr, "Submit a? [y/N]" in out) == (
        0,
        True,
        True,
    )
    assert writes(service) == [("POST", "/api/v1/pools/lab/workloads/")]


@pytest.mark.parametrize(
    ("seen", "hint"), [(("chemistry", "physics"), " Did you mean physics?"), (("chemistry",), "")]
)
def test_a_mistyped_tenant_is_refused_with_the_nearest_that_the_key_sees(told, seen, hint):
    listed = page([{"slug": each} for each in seen], None, last=True)
    service = told(refusal(422, "tenant.unknown"), refusal(404, "tenant.not_found"), listed)
    code, _, stderr = at_a_terminal("y", *SUBMITTED, "--tasks", "9", "--tenant", "phisycs")
    sentence = f'No tenant that this key sees has the slug "phisycs".{hint}'
    assert (code, sentence in " ".join(stderr.split())) == (1, True), stderr
    assert writes(service) == []


@pytest.mark.parametrize("typed", ["phisycs", "PHISYCS"])
def test_a_mistyped_tenant_is_refused_with_the_nearest_without_a_question_too(alloc, told, typed):
    listed = page([{"slug": "physics"}, {"slug": "chemistry"}], None, last=True)
    told(refusal(422, "tenant.unknown"), refusal(404, "tenant.not_found"), listed)
    done = alloc(*SUBMITTED, "--tasks", "9", "--tenant", typed, "--yes")
    sentence = f'No tenant that this key sees has the slug "{typed}". Did you mean physics?'
    assert (done.exit_code, sentence in " ".join(done.stderr.split())) == (1, True), done.stderr


def test_the_refusal_of_a_tenant_that_exists_stays(alloc, told):
    told(refusal(422, "tenant.unknown"), (200, JSON, {"slug": "physics"}))
    done = alloc(*SUBMITTED, "--tasks", "9", "--tenant", "physics", "--yes")
    assert (done.exit_code, "tenant.unknown" in done.stderr) == (1, True), done.stderr


def test_a_workload_is_withdrawn(alloc, told):
    service = told(TENANTS, LISTED, SHOWN, (204, {"Pool-Generation": "10"}, b""))
    done = alloc("withdraw", "lab", "a", "--yes")
    assert (done.exit_code, done.stdout) == (0, "Withdrew a as generation 10 of lab.\n"), (
        done.output
    )
    assert writes(service) == [("DELETE", "/api/v1/pools/lab/workloads/id-a/")]


def test_one_that_changed_after_it_was_shown_is_left_alone(alloc, told):
    newer = (200, {**JSON, "ETag": '"5"'}, {**WORKLOAD, "version": 5})
    service = told(TENANTS, LISTED, newer)
    done = alloc("withdraw", "lab", "a", "--yes")
    assert (done.exit_code, "was changed meanwhile" in done.stderr) == (1, True)
    assert writes(service) == []


def test_slots_are_instants(alloc, told):
    schedule = {
        "period_seconds": 3600,
        "timetable": [{"start": 0, "end": 900, "slot": 1}, {"start": 900, "end": 3600, "slot": 0}],
        "slots": [{"allocations": []}, {"allocations": [{"workload": "a", "tasks": 1}]}],
    }
    told(decision(9), (200, JSON, schedule))
    assert alloc("slots", "lab").stdout.splitlines() == [
        "FROM                          TO                            TASKS",
        "4 January 2027, 08:00:00 UTC  4 January 2027, 08:15:00 UTC  1 task of a",
        "4 January 2027, 08:15:00 UTC  4 January 2027, 09:00:00 UTC  nothing",
        "",
        "The slots of the first period; they repeat every 1:00:00.",
    ]
    told(decision(9), refusal(404, "schedule.none"))
    done = alloc("slots", "lab")
    assert (done.exit_code, "does not take turns" in done.stderr) == (1, True)


def test_a_share_is_ones_own_unless_all_are_asked_for(alloc, told):
    names = ("entitled", "has", "lent", "borrowed")
    amounts = {name: {"cpu": "1", "gpu": "0"} for name in names}
    rows = [{"tenant": name, "returns": None, **amounts} for name in ("physics", "member-1")]
    shares = {
        "generation": 9, "at": "2027-01-04T09:00:00+01:00", "tenants": rows, "run": "r-1",
    }  # fmt: skip
    nothing = page([], None, last=True)

    def listed(*options, tenants=(TENANTS,)):
        told(
            *tenants, (200, JSON, {**shares, "tenants": list(rows)}),
            (200, JSON, {"tenants": []}), nothing, (200, JSON, POOL),
        )  # fmt: skip
        done = alloc("share", "lab", *options)
        assert done.exit_code == 0, done.output
        return {line.split()[0] for line in done.stdout.splitlines()[1:-2]}

    assert listed() == {"physics"}
    assert listed("--all", tenants=()) == {"physics", "member-1"}
    assert listed("--tenant", "member-1", tenants=()) == {"member-1"}


def test_a_history_has_the_causes_of_its_steps(alloc, told):
    def step(hour, tasks, *causes):
        names = ("kind", "action", "workload", "cluster")
        return {
            "start": f"2027-01-04T{hour:02}:00:00+01:00", "end": "2027-01-05T00:00:00+01:00",
            "tasks": [{"workload": name, "tasks": count} for name, count in tasks.items()],
            "causes": [dict(zip(names, cause, strict=True)) for cause in causes],
        }  # fmt: skip

    steps = [
        step(9, {}),
        step(
            10,
            {"a": 2.5, "b": 1},
            ("workload", "submit", "a", None),
            ("workload", None, None, None),
        ),
        step(11, {"a": 1200}, ("server", None, None, None), ("cluster", "leave", None, "east")),
    ]
    found = {"pool": "lab", "tenant": "physics", "complete": False, "steps": steps}
    service = told(TENANTS, (200, JSON, found))
    assert alloc("history", "lab", "--days", "30").stdout.splitlines() == [
        "FROM                          TASKS       CHANGED BEFORE",
        "4 January 2027, 08:00:00 UTC  nothing",
        "4 January 2027, 09:00:00 UTC  a 2.5, b 1  submit a, workloads of another member",
        "4 January 2027, 10:00:00 UTC  a 1,200     servers, leave of the cluster east",
        "",
        "The period has more decisions than are read: these are the newest.",
    ]
    path = "/api/v1/pools/lab/members/physics/allocation-history/?days=30"
    assert service.asked[-1][1] == path
