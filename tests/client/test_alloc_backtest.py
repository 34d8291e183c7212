"""`alloc backtest`: what it sends, how it waits, and what it prints."""

import base64
import gzip
import json

import pytest

from tests.backtests import CSV
from tests.client.answers import POOL
from tests.client.test_transport import JSON, refusal

POLICIES = [{"name": "static", "options": {}}, {"name": "drfh", "options": {"placement": "x"}}]
SPREAD = {"deviation": 0, "least": 0, "most": 1}


def document(status="queued", progress=0, **more):
    return {"id": "b-1", "status": status, "progress": progress, "error": None, **more}


def answer(status="queued", progress=0, **more):
    return (202 if status == "queued" else 200, JSON, document(status, progress, **more))


def column(policy, mean):
    measured = ("mean_waiting", "completion_ratio", "jain_index", "min_sharing_degree")
    pool = {name: {**SPREAD, "mean": mean} for name in measured}
    pool |= {"utilisation": {"cpu": {**SPREAD, "mean": mean}}, "min_sharing_degree": None}
    return {"policy": policy, "error": None, "pool": pool, "money": {"charged": "12.30"}}


FAILED = {"policy": POLICIES[1], "error": {"detail": "No."}, "pool": None, "money": None}
RESULTS = {
    "resources": ["cpu"], "currency": "EUR", "columns": [column(POLICIES[0], 0.5), FAILED],
    "input": {"tasks": 12_345, "tenants": 2, "servers": 40, "digest": "d1"},
}  # fmt: skip


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(CSV)
    return str(path)


def test_a_trace_is_sent_packed_with_everything_that_was_written(alloc, told, trace):
    service = told(answer())
    done = alloc(
        *("backtest", "start", trace, "--servers", "40", "cpu=64,memory=256Gi", "--name", "night"),
        *("--servers", "1", "cpu=2", "--policies", "static,drfh", "--seeds", "1,2", "--resample"),
        *("--set", "drfh", "placement=two-choices,seed=7", "--jobs-of", "user", "--tenants", "3"),
        *("--processors-per-node", "64"),
    )
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "Backtest b-1 is queued: 0 %.",
        "Its results: alloc backtest show b-1 --wait",
    ]
    body = json.loads(service.bodies[0])
    content = body["trace"].pop("content")
    assert gzip.decompress(base64.b64decode(content)).decode() == CSV
    assert body == {
        "name": "night",
        "policies": [
            "static",
            {"name": "drfh", "options": {"placement": "two-choices", "seed": 7}},
        ],
        "resample": True,
        "seeds": [1, 2],
        "servers": [
            {"capacity": {"cpu": "64", "memory": "256Gi"}, "count": 40},
            {"capacity": {"cpu": "2"}, "count": 1},
        ],
        "trace": {
            "format": "csv", "encoding": "gzip", "skip_bad_lines": False, "tenant": "user", "tenants": 3,
            "processors_per_node": 64,
        },
        "pool": None,
    }  # fmt: skip


def test_a_packed_trace_is_sent_as_it_is(alloc, told, tmp_path):
    packed = gzip.compress(CSV.encode(), mtime=7)
    (tmp_path / "quarter.gz").write_bytes(packed)
    service = told(answer())
    path = str(tmp_path / "quarter.gz")
    assert alloc("backtest", "start", path, "--as", "sacct", "--policies", "drf").exit_code == 0
    sent = json.loads(service.bodies[0])["trace"]
    assert (sent["format"], base64.b64decode(sent["content"])) == ("sacct", packed)


def test_a_history_is_in_the_pools_time_zone(alloc, told):
    service = told((200, JSON, POOL), answer())
    period = ("--from", "2027-01-01", "--to", "2027-02-01T10:00Z")
    done = alloc("backtest", "start", "--pool", "lab", *period, "--policies", "drf", "--json")
    assert json.loads(done.stdout) == {"backtest": document(), "results": None}
    body = json.loads(service.bodies[1])
    assert body["history"] == {
        "from": "2027-01-01T00:00:00+01:00",
        "to": "2027-02-01T10:00:00+00:00",
    }
    assert "trace" not in body


def test_the_progress_is_told_beside_the_table(alloc, told, trace):
    told(answer(), answer("running", 3), answer("running", 3), answer("succeeded", 100),
         (200, JSON, RESULTS))  # fmt: skip
    done = alloc("backtest", "start", trace, "--policies", "static,drfh", "--wait")
    assert done.exit_code == 0
    assert done.stderr.splitlines() == [
        "running: 3 %",
        "drfh (placement x) could not run it: No.",
    ]
    assert done.stdout.splitlines() == [
        "POLICY              CPU IN USE  MEAN WAIT (h)  TASKS DONE  JAIN  LEAST DEGREE  CHARGED EUR",
        "static                  50.0 %         0.0001      50.0 %   0.5             -        12.30",
        "drfh (placement x)           -              -           -     -             -            -",
        "",
        "12,345 tasks of 2 tenants on 40 servers; SHA-256 of the input d1",
    ]


@pytest.mark.parametrize("arguments", [("start", "--wait", "--policies", "drf"), ("show", "b-1")])
def test_one_that_failed_ends_with_1_and_says_why(alloc, told, trace, arguments):
    error = {"code": "trace.line", "detail": "line 9: duration is 'x'"}
    asked = [answer()] if arguments[0] == "start" else []
    told(*asked, answer("failed", error=error))
    more = [trace] if arguments[0] == "start" else []
    done = alloc("backtest", *arguments, *more)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "alloc: line 9: duration is 'x' (trace.line)\n"


@pytest.mark.parametrize("text", ["1e999", "-1e999", "NaN", "Infinity", "[1]", "9" * 5000])
def test_what_is_no_number_of_json_is_sent_as_it_was_written(alloc, told, trace, text):
    service = told(answer())
    done = alloc("backtest", "start", trace, "--policies", "drf", "--set", "drf", f"seed={text}")
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(service.bodies[0])["policies"][0]["options"] == {"seed": text}


def test_a_wait_in_vain_says_how_to_go_on(alloc, told):
    told(answer("running", 40))
    done = alloc("backtest", "show", "b-1", "--wait", "--timeout", "0")
    assert (done.exit_code, done.stdout) == (4, "")
    assert "It goes on: alloc backtest show b-1 --wait" in done.stderr


def test_results_are_had_as_json_and_as_the_services_csv(alloc, told):
    done = answer("succeeded", 100)
    told(done, (200, JSON, RESULTS), done, (200, {"Content-Type": "text/csv"}, b"policy\nstatic\n"))
    found = json.loads(alloc("backtest", "show", "b-1", "--json").stdout)
    assert found == {"backtest": done[2], "results": RESULTS}
    assert alloc("backtest", "show", "b-1", "--csv").stdout == "policy\nstatic\n"


def test_one_is_cancelled_and_then_has_no_results(alloc, told):
    told(answer("cancelled"), answer("cancelled"), refusal(409, "backtest.finished"))
    assert alloc("backtest", "cancel", "b-1").stdout == "Backtest b-1 is cancelled.\n"
    shown = alloc("backtest", "show", "b-1")
    assert (shown.exit_code, shown.stderr) == (1, "alloc: Backtest b-1 was cancelled.\n")
    assert alloc("backtest", "cancel", "b-1").exit_code == 1


@pytest.mark.parametrize(
    "arguments",
    [("start", "--policies", "drf"), ("start", "TRACE"), ("start", "nothing", "--policies", "drf"),
     ("start", "TRACE", "--policies", "drf,"), ("start", "TRACE", "--policies", "drf", "--csv"),
     ("start", "TRACE", "--policies", "drf", "--from", "2027-01-01"),
     ("start", "TRACE", "--policies", "drf", "--set", "drfh", "placement=x"),
     ("start", "TRACE", "--policies", "drf", "--servers", "0", "cpu=1"),
     ("start", "TRACE", "--policies", "drf", "--seeds", "one"), ("show",), ("cancel", "..")],
)  # fmt: skip
def test_wrong_usage_asks_nothing(alloc, told, trace, arguments):
    service = told()
    done = alloc("backtest", *(trace if each == "TRACE" else each for each in arguments))
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert done.stderr.startswith("alloc: ")
    assert service.asked == []
