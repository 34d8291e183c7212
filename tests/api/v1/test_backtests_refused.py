"""Input that cannot be simulated is told at once, or by the failed backtest: with its line."""

import base64
import gzip

import pytest

from allocator_service.backtests import errors, preparing, uploads
from allocator_service.backtests.models import Backtest, BacktestInput, Cell
from tests.api.v1.test_backtests import ALL, finished, results
from tests.api.v1.test_conventions import code
from tests.backtests import CSV, SACCT, asked

pytestmark = pytest.mark.django_db
HEADER = CSV.splitlines()[0]
GOOD = "t,0,60,1,1,1,"


def lines(*rows):
    return "\n".join((HEADER, *rows)) + "\n"


@pytest.mark.parametrize(
    ("content", "form", "expected", "said"),
    [
        ("", "csv", "trace.line", "line 1: the header is ''"),
        (HEADER, "csv", "trace.empty", "There is no task in the trace."),
        ("a,b\n1,2\n", "csv", "trace.line", "line 1: the header is 'a,b'"),
        (lines(GOOD, "t,0,-60,1,1,1,"), "csv", "trace.line", "line 3: duration is '-60'"),
        (lines("t,NaN,60,1,1,1,"), "csv", "trace.line", "line 2: submit is 'NaN'"),
        (lines("t,0,60,1,1,1e99,"), "csv", "trace.line", "line 2: tasks is '1e99'"),
        (lines("t,0,60,0,0,1,"), "csv", "trace.line", "line 2: it demands nothing"),
        (lines(GOOD, "t,0,60"), "csv", "trace.line", "line 3: it has 3 fields"),
        (
            SACCT.replace("2026-07-01T00:10:00", "2026-06-30T00:10:00"), "sacct", "trace.line",
            "line 2: it began 85800 s before it was submitted",
        ),
        ("; nothing\n", "swf", "trace.empty", "There is no task"),
        (SACCT.splitlines()[0] + "\n" + SACCT.splitlines()[4], "sacct", "trace.empty",
         "left out were 1 because it never ran"),
    ],
)  # fmt: skip
def test_what_is_wrong_at_the_beginning_is_told_at_once(operator, content, form, expected, said):
    answer = operator.post(ALL, asked(content, form))
    assert code(answer) == (422, expected)
    assert said in answer.json()["detail"]
    assert answer.json()["errors"][0]["pointer"] == "/trace/content"
    assert not Backtest.objects.exists()
    assert not BacktestInput.objects.exists()


def many(count, bad=None):
    rows = [f"t{number % 7},{number},60,1,1,1," for number in range(count)]
    if bad is not None:
        rows[bad - 2] = f"t,{bad},-1,1,1,1,"
    return lines(*rows)


def test_one_bad_line_among_many_fails_the_backtest_with_its_number(operator):
    found = finished(operator, asked(many(20_000, bad=19_876)))
    assert found["status"] == "failed"
    assert found["error"]["code"] == "trace.line"
    assert found["error"]["detail"].startswith("line 19876: duration is '-1'")
    assert found["error"]["errors"][0]["pointer"] == "/trace/content"
    assert code(operator.get(f"{ALL}{found['id']}/results/")) == (409, "backtest.unfinished")
    assert not Cell.objects.exists()
    assert bytes(BacktestInput.objects.get().uploaded or b"") == b""


def test_bad_lines_may_be_counted_instead(operator):
    body = asked(many(3_000, bad=2_000))
    body["trace"]["skip_bad_lines"] = True
    read = results(operator, body)["input"]
    assert (read["tasks"], read["bad_lines"]) == (2_999, 1)
    assert read["first_bad_lines"][0]["line"] == 2000


def test_times_out_of_order_are_sorted(operator):
    rows = [f"t,{at},60,1,1,1," for at in (900, 0, 300, 600)]
    ordered = results(operator, asked(lines(*sorted(rows, key=lambda row: int(row.split(",")[1])))))
    turned = results(operator, asked(lines(*rows)))
    for column, other in zip(ordered["columns"], turned["columns"], strict=True):
        assert column["pool"] == other["pool"]


def test_jobs_larger_than_any_server_never_begin_and_are_told(operator):
    found = results(operator, asked(lines(GOOD, "big,0,60,64,1,3,")))
    assert found["input"]["fits_nowhere"] == {"tasks": 3, "tenants": ["big"]}
    pool = found["columns"][1]["pool"]
    assert pool["tasks_never_begun"]["mean"] == 3
    assert pool["completion_ratio"]["mean"] == 0.25


def test_a_trace_of_which_nothing_fits_fails_and_says_what_would(operator):
    found = finished(operator, asked(lines("big,0,60,64,1,3,")))
    assert (found["status"], found["error"]["code"]) == ("failed", "backtest.nothing_fits")
    assert "cpu 64" in found["error"]["detail"]


def test_a_tenant_that_was_not_named_is_refused(operator):
    found = finished(operator, asked(tenants=[{"name": "physics", "weight": 2}]))
    assert (found["status"], found["error"]["code"]) == ("failed", "tenant.unknown")
    assert found["error"]["detail"].startswith("chemistry is not among the tenants")


def test_weights_count(operator):
    named = [{"name": "physics", "weight": 3}, {"name": "chemistry"}]
    found = results(operator, asked(tenants=named))
    # Alone it has one server and half of the other: room for three of its four large tasks.
    assert found["columns"][0]["tenants"][0]["mean_waiting"] == (3600 + 2 * 3000) / 6


@pytest.mark.parametrize(
    ("change", "status", "expected"),
    [
        ({"policies": ["tda"]}, 422, "policy.unknown"),
        ({"policies": ["drf", "drf"]}, 422, "backtest.twice"),
        ({"policies": [{"name": "slots", "options": {"slots": 1}}]}, 422, "policy.options"),
        ({"policies": []}, 422, "field.count"),
        ({"seeds": [1, 1]}, 422, "backtest.twice"),
        ({"seeds": list(range(61)), "policies": ["dedicated"]}, 422, "field.count"),
        ({"seeds": list(range(40)), "resample": True}, 413, "backtest.too_large"),
        ({"servers": []}, 422, "backtest.no_servers"),
        ({"tenants": [{"name": "a", "weight": 0}]}, 422, "weight.not_positive"),
        ({"trace": {"format": "xls", "content": ""}}, 422, "field.choice"),
        ({"trace": {"format": "csv", "content": CSV, "memory": True}}, 422, "trace.option"),
        ({"trace": {"format": "csv", "content": "AA", "encoding": "gzip"}}, 422, "trace.encoding"),
        ({"speed": 2}, 400, "field.unknown"),
    ],
)
def test_what_is_no_question_is_refused(operator, change, status, expected):
    assert code(operator.post(ALL, asked() | change)) == (status, expected)
    assert not Backtest.objects.exists()


def test_servers_in_other_resources_than_the_trace_fail(operator):
    found = finished(operator, asked(servers=[{"capacity": {"gpu": 1}}]))
    assert (found["status"], found["error"]["code"]) == ("failed", "resource.unknown")
    assert found["error"]["errors"][0]["pointer"] == "/servers/0/capacity/gpu"


def test_a_trace_that_unpacks_to_too_much_is_refused(operator, monkeypatch):
    monkeypatch.setattr(uploads, "MAX_TRACE_BYTES", 200_000)
    body = asked()
    body["trace"]["encoding"] = "gzip"
    body["trace"]["content"] = base64.b64encode(gzip.compress(many(20_000).encode())).decode()
    found = finished(operator, body)
    assert (found["status"], found["error"]["code"]) == ("failed", "backtest.too_large")
    body["trace"] = {"format": "csv", "content": many(20_000)}
    assert code(operator.post(ALL, body)) == (413, "backtest.too_large")


def test_lines_of_a_million_tasks_are_counted_before_they_are_made(operator):
    answer = operator.post(ALL, asked(lines(*["t,0,60,1,1,1000000,"] * 1_000)))
    assert code(answer) == (413, "backtest.too_large")
    assert f"{errors.MAX_TASKS}" in answer.json()["detail"]


def test_servers_of_all_rows_are_counted_together(operator):
    """Each row may have as many as there may be in all."""
    row = {"capacity": {"cpu": 4, "memory": 16}, "count": errors.MAX_SERVERS}
    answer = operator.post(ALL, asked(servers=[row, row]))
    assert code(answer) == (413, "backtest.too_large")
    assert "There are 200000 servers; at most 100000" in answer.json()["detail"]
    assert not Backtest.objects.exists()


def test_kinds_of_tasks_on_kinds_of_servers_are_counted(operator, monkeypatch):
    """Three kinds of tasks on three of servers are nine pairs."""
    monkeypatch.setattr(preparing, "MAX_PAIRS", 9)
    servers = [{"capacity": {"cpu": 4, "memory": 16 + more}} for more in range(4)]
    assert finished(operator, asked(servers=servers[:3]))["status"] == "succeeded"
    found = finished(operator, asked(servers=servers))
    assert (found["status"], found["error"]["code"]) == ("failed", "backtest.too_large")
    assert "3 kinds of tasks on 4 kinds of servers are 12 pairs" in found["error"]["detail"]
    assert not Cell.objects.filter(backtest=found["id"]).exists()


def test_a_body_beyond_32_mib_is_413(operator):
    assert operator.post(ALL, asked("x" * (32 * 2**20))).status_code == 413


def test_a_broken_gzip_fails(operator):
    body = asked()
    packed = gzip.compress(many(50_000).encode())[:-2000]
    body["trace"].update(encoding="gzip", content=base64.b64encode(packed).decode())
    found = finished(operator, body)
    assert (found["status"], found["error"]["code"]) == ("failed", "trace.encoding")


def test_nul_and_controls_in_names(operator):
    body = asked()
    nul = gzip.compress(lines("a\0b,0,60,1,1,1,").encode())
    body["trace"].update(encoding="gzip", content=base64.b64encode(nul).decode())
    found = finished(operator, body)
    assert (found["status"], found["error"]["code"]) == ("failed", "trace.tenant")
