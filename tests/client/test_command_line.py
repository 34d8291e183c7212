"""`alloc`: where keys are kept, what is printed, how it ends when something is wrong."""

import json
import os
import signal
import stat
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from allocator_client.cli import output
from allocator_client.cli.main import cli
from launcher.folders import PROJECT
from tests.client.test_transport import HTML, JSON, page, refusal

POOL = {
    "slug": "lab", "name": "Lab", "resources": [{"name": "cpu", "unit": "core"}, {"name": "gpu"}],
    "policy": {"name": "drfh", "mode": "divisible", "options": {}}, "generation": 12583,
    "timezone": "Europe/Berlin",
}  # fmt: skip
ROOT = (200, JSON, {"version": "1", "collections": {}})
POOLS, TENANTS = page([POOL], None, last=True), page([{"slug": "physics"}], None, last=True)
LOGIN = (ROOT, POOLS, TENANTS)


def decision(generation, run="r-1"):
    run = {
        "id": run, "policy": POOL["policy"], "effective_from": "2027-01-04T09:00:00+01:00",
        "effective_until": None, "summary": None,
    }  # fmt: skip
    return (200, JSON, {"pool": "lab", "generation": generation, "run": run, "slot": None})


def row(name, tasks):
    return {
        "tenant": "physics", "workload": {"id": f"id-{name}", "name": name}, "tasks": tasks,
        "resources": {"cpu": tasks / 5}, "dominant_share": 5 / 7, "limited_by": "resource:cpu",
    }  # fmt: skip


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user with no profile yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("ALLOC_URL", "ALLOC_KEY", "ALLOC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def alloc(home):
    def run(*arguments, typed=None, **env):
        return CliRunner(env=env).invoke(cli, arguments, input=typed, prog_name="alloc")

    return run


@pytest.fixture
def told(alloc, scripted, monkeypatch):
    """A service that answers as told, and a key for it in the environment."""

    def start(*answers):
        service = scripted(*answers)
        monkeypatch.setenv("ALLOC_URL", service.url)
        monkeypatch.setenv("ALLOC_KEY", "alloc_secret")
        return service

    return start


def process(*arguments, **options):
    """`alloc` in a process of its own, which Ctrl-C ends though a shell's background job ignores it."""
    return subprocess.Popen(
        [sys.executable, "-m", "allocator_client.cli.main", *arguments],
        env={**os.environ, "PYTHONPATH": str(PROJECT / "client"), "PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options},
    )


# Keys and where they are kept


def test_a_key_is_checked_and_kept_where_nobody_else_reads_it(alloc, scripted, home):
    service = scripted(*LOGIN, POOLS)
    done = alloc("login", service.url + "/api/v1/", typed="alloc_secret\n")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "as physics. Pools: lab." in done.stdout
    assert "alloc_secret" not in done.output
    kept = home / "config" / "allocator" / "profiles.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert list(kept.parent.iterdir()) == [kept]
    assert alloc("pools").exit_code == 0
    assert service.asked[0][2].get("Authorization") is None  # before it is known to be the service
    assert service.asked[-1][2]["Authorization"] == "Bearer alloc_secret"


def test_two_profiles_go_each_to_its_own_service(alloc, scripted):
    one, two = scripted(*LOGIN, POOLS), scripted(*LOGIN, POOLS)
    alloc("login", one.url, typed="key-1")
    alloc("login", two.url, "--profile", "two", typed="key-2")
    assert alloc("pools").exit_code == 0
    assert alloc("pools", ALLOC_PROFILE="two").exit_code == 0
    keys = [service.asked[-1][2]["Authorization"] for service in (one, two)]
    assert keys == ["Bearer key-1", "Bearer key-2"]
    assert alloc("logout", "--profile", "two").exit_code == 0
    assert (alloc("pools", "--profile", "two").exit_code, len(two.asked)) == (2, 4)


@pytest.mark.parametrize(
    ("answers", "code"),
    [((ROOT, refusal(401, "auth.invalid")), 1), ((HTML,), 3), (((200, JSON, {"ok": True}),), 3)],
)
def test_a_login_that_fails_keeps_nothing(alloc, scripted, home, answers, code):
    done = alloc("login", scripted(*answers).url, typed="wrong")
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr.startswith("alloc: ")
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [("login", "http://h", "alloc_secret"), ("login", "--key", "alloc_secret"),
     ("pools", "--key=alloc_secret"), ("verify", "run", "--key", "alloc_secret")],
)  # fmt: skip
def test_a_key_on_the_command_line_is_refused_and_not_repeated(alloc, arguments):
    done = alloc(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "is seen by everybody on this machine" in done.stderr
    assert "alloc_secret" not in done.output


def test_a_new_key_needs_no_new_address_and_is_never_taken_for_one(alloc, scripted):
    service = scripted(*LOGIN, *LOGIN)
    unknown = alloc("login", typed="alloc_secret")
    assert (unknown.exit_code, "alloc_secret" in unknown.output) == (2, False)
    alloc("login", service.url, typed="alloc_secret")
    again = alloc("login", typed="alloc_new")
    assert (again.exit_code, service.asked[-1][2]["Authorization"]) == (0, "Bearer alloc_new")


def test_a_profiles_key_goes_to_no_other_address(alloc, scripted):
    service, other = scripted(*LOGIN), scripted()
    alloc("login", service.url, typed="key-1")
    done = alloc("pools", ALLOC_URL=other.url)
    assert (done.exit_code, other.asked) == (2, [])
    assert "set ALLOC_KEY too" in done.stderr


def test_keys_that_others_can_read_are_not_used(alloc, scripted, home):
    service = scripted(*LOGIN)
    alloc("login", service.url, typed="key-1")
    kept = home / "config" / "allocator" / "profiles.json"
    kept.chmod(0o644)
    done = alloc("pools")
    assert (done.exit_code, len(service.asked)) == (2, 3)
    assert f"chmod 600 {kept}" in done.stderr


def test_a_damaged_file_is_said_and_not_a_traceback(alloc, home):
    kept = home / "config" / "allocator" / "profiles.json"
    kept.parent.mkdir(parents=True)
    for content in ("{cut", "[]", '{"default": {"url": "http://h"}}', '{"default": 3}'):
        kept.write_text(content)
        kept.chmod(0o600)
        done = alloc("pools")
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
        assert "is damaged: remove it, and log in again" in done.stderr


def test_a_place_that_cannot_be_written_is_said(alloc, scripted):
    done = alloc("login", scripted(*LOGIN).url, typed="key-1", XDG_CONFIG_HOME="/proc/nowhere")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "alloc: /proc/nowhere/allocator/profiles.json cannot be written: "
    )


def test_without_a_key_it_says_how_to_get_one(alloc):
    done = alloc("share")
    assert (done.exit_code, done.stdout) == (2, "")
    assert (
        done.stderr
        == "alloc: No key for this: alloc login https://..., or set ALLOC_URL and ALLOC_KEY.\n"
    )


# How it ends


def test_an_expired_key_is_refused_with_what_to_do(alloc, told):
    told(refusal(401, "auth.expired"))
    done = alloc("pools")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "alloc: No such resource. (401 auth.expired at /demand/gpu)",
        "log in again: alloc login; request r-1",
    ]


def test_a_refusal_is_two_lines_with_code_pointer_and_request(alloc, told):
    told(refusal(422, "resource.unknown"))
    done = alloc("submit", "lab", "--demand", "gpu=1")
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
    done = alloc("submit", "lab", "--demand", "cpu=1", "--name", "a", "--wait", "--timeout", "0")
    assert (done.exit_code, done.stdout) == (4, "")
    said = "After 0 s there is no decision for change 9 of lab. a is submitted all the same."
    assert said in done.stderr


@pytest.mark.parametrize(
    ("limited_by", "said"),
    [("task_limit", "It has all the tasks that it asked for."),
     ("resource:cpu", "Limited by cpu: alloc why lab a"),
     ("level", "Limited by level: alloc why lab a")],
)  # fmt: skip
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
    done = alloc("submit", "lab", "--demand", "cpu=1", "--name", "a", "--tasks", "3", "--wait")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["a: 3 of 3 tasks, cpu 0.6 core.", said]
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
        while "change 9" not in seen and (line := watching.stdout.readline()):
            seen += line
        time.sleep(0.5)
        watching.send_signal(signal.SIGINT)
        rest, errors = watching.communicate(timeout=10)
    assert watching.returncode == 130
    assert (seen + rest).count("change 8") == (seen + rest).count("change 9") == 1
    assert "Traceback" not in errors


def test_a_reader_that_has_seen_enough_is_no_error(told):
    rows = [{"slug": f"pool-{n}", **POOL} for n in range(1000)]
    told(*[page(rows, f"c{n}", last=False) for n in range(50)], POOLS)
    with process("pools", "--csv") as writing, process("pools") as tables:
        for each in (writing, tables):
            each.stdout.readline()
            each.stdout.close()
            assert "Traceback" not in each.stderr.read()


# What is printed


def test_tables_are_aligned_with_numbers_right_whatever_the_letters(alloc, told):
    names = ["Übung", "研究室", "a\x1b[31mred\u202e", "e\u0301te\u0301"]
    told(
        page(
            [{**POOL, "name": name, "generation": 10**n} for n, name in enumerate(names)],
            None,
            last=True,
        )
    )
    assert alloc("pools").stdout.splitlines() == [
        "POOL  NAME        POLICY           RESOURCES        CHANGES",
        "lab   Übung       drfh, divisible  cpu (core), gpu        1",
        "lab   研究室      drfh, divisible  cpu (core), gpu       10",
        "lab   a\ufffd[31mred\ufffd  drfh, divisible  cpu (core), gpu      100",
        "lab   e\u0301te\u0301         drfh, divisible  cpu (core), gpu    1,000",
    ]


def test_a_long_list_is_printed_while_it_comes(capsys):
    seen = []

    def rows():
        for n in range(100_000):
            if n == 5000:
                seen.append(capsys.readouterr().out.count("\n"))
            yield (f"row-{n}", "1")

    output.table(("NAME", ">N"), rows())
    assert seen == [5001]  # the heading, and every row before the one that is being made
    assert capsys.readouterr().out.count("\n") == 95_000


@pytest.mark.parametrize(
    ("value", "shown"),
    [(12583, "12,583"), (0, "0"), (5 / 7, "0.7143"), ("15.50", "15.5"), (1234.5678, "1,235"),
     (9.999999999999998, "10"), ("0.00001234", "1.23e-5"), (-0.5, "-0.5"), (None, "-"),
     (10**24, "1" + ",000" * 8), ("not a number", "not a number"), (1e-300, "1.00e-300")],
)  # fmt: skip
def test_numbers_are_short(value, shown):
    assert output.number(value) == shown


def test_json_is_the_services_own_document_with_all_rows_in_one(alloc, told):
    told(page([POOL], "c", last=False), page([{**POOL, "slug": "ü"}], None, last=True))
    assert json.loads(alloc("pools", "--json").stdout) == {
        "results": [POOL, {**POOL, "slug": "ü"}],
        "next": None,
    }
    told(page([], None, last=True))
    assert json.loads(alloc("pools", "--json").stdout) == {"results": [], "next": None}
    rows = [row("a", 1), row("b", 2)]
    told(decision(3), page(rows, None, last=True))
    document = json.loads(alloc("decision", "lab", "--json").stdout)
    assert (document["decision"], document["allocations"]["results"]) == (decision(3)[2], rows)


def test_colours_are_for_terminals_that_want_them(told):
    import pty

    def printed(**env):
        told(POOLS)
        ours, theirs = pty.openpty()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in env.items():
                patch.setenv(name, value)
            with process("pools", stdout=theirs) as done:
                os.close(theirs)
                done.wait(timeout=10)
        text = os.read(ours, 10_000).decode()
        os.close(ours)
        return text

    assert "\x1b[1m" in printed(TERM="xterm")
    assert "\x1b" not in printed(TERM="xterm", NO_COLOR="1")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_completion(alloc, shell):
    done = alloc("completion", shell)
    assert (done.exit_code, "_ALLOC_COMPLETE" in done.stdout) == (0, True)


def test_pools_are_completed_and_nothing_is_said_when_they_cannot_be(alloc, told):
    told(page([POOL, {**POOL, "slug": "campus"}], None, last=True), HTML)
    words = {"_ALLOC_COMPLETE": "bash_complete", "COMP_WORDS": "alloc share l", "COMP_CWORD": "2"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in words.items():
            patch.setenv(name, value)
        for expected in ("plain,lab\n", "\n"):
            with process() as completing:
                assert completing.communicate(timeout=10) == (expected, "")


# Verification


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
            "conditions": [{"type": "unsatisfiable", "reason": "no_server_large_enough"}]}  # fmt: skip
    service = told((201, {**JSON, "Pool-Generation": "9"}, made))
    done = alloc(
        "submit", "lab", "--demand", "cpu=250m,memory=4Gi", "--tasks", "3", "--name", "a",
        "--select", "zone=a", "--select", "zone=b,disk=ssd", "--priority", "-1",
    )  # fmt: skip
    assert (done.exit_code, done.stdout) == (0, "Submitted a as change 9 of lab.\n")
    assert "it cannot run: no_server_large_enough" in done.stderr
    assert json.loads(service.bodies[0]) == {
        "name": "a", "demand": {"cpu": "250m", "memory": "4Gi"}, "tasks": 3, "priority": -1,
        "server_selector": {"zone": ["a", "b"], "disk": ["ssd"]},
    }  # fmt: skip
