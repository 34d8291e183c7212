"""Backtests over HTTP: asked, worked through, read by whoever asked."""

import base64
import gzip

import pytest

from allocator_service.core.models import AuditEntry
from allocator_service.tenants.models import ApiKey
from tests import factories
from tests.api.v1.test_conventions import code
from tests.backtests import CSV, SACCT, SERVERS, asked, work

pytestmark = pytest.mark.django_db
ALL = "/api/v1/backtests/"


def finished(client, body):
    answer = client.post(ALL, body)
    assert answer.status_code == 202, answer.content
    assert answer.json()["status"] == "queued"
    assert answer.json()["progress"] == 0
    work()
    return client.get(answer.headers["Location"]).json()


def results(client, body):
    found = finished(client, body)
    assert found["status"] == "succeeded", found["error"]
    return client.get(f"{ALL}{found['id']}/results/").json()


def test_a_trace_under_two_policies(operator):
    found = finished(operator, asked())
    assert (found["status"], found["progress"], found["simulations"]) == ("succeeded", 100, 2)
    read = found["input"]
    assert (read["tasks"], read["jobs"], read["tenants"], read["servers"]) == (10, 3, 2, 2)
    result = operator.get(f"{ALL}{found['id']}/results/").json()
    assert result["input"]["digest"] == read["digest"]
    assert result["baseline"] == "static"
    static, drfh = result["columns"]
    assert (
        static["pool"]["completion_ratio"]["mean"] == drfh["pool"]["completion_ratio"]["mean"] == 1
    )
    # Alone everybody has a server: two large tasks of physics at a time, or two of chemistry.
    by_name = {row["tenant"]: row for row in static["tenants"]}
    assert by_name["physics"]["submitted"] == 6
    assert by_name["physics"]["mean_waiting"] == (2 * 3600 + 2 * 6600) / 6
    assert by_name["chemistry"]["mean_waiting"] == 900
    # Shared, physics has both servers for the first hour.
    assert drfh["tenants"][0]["mean_waiting"] < 1600
    assert drfh["pool"]["mean_waiting"]["deviation"] == 0
    assert [size["jobs"] for size in drfh["by_job_size"]] == [3, 0, 0, 0, 0]
    assert drfh["by_job_size"][0]["reduction"]["mean"] > 0
    assert static["by_job_size"][0]["reduction"]["mean"] == 0


def test_the_same_question_has_the_same_answer_and_digest(operator):
    first, again = results(operator, asked()), results(operator, asked())
    other = results(operator, asked(CSV.replace("3600", "3601")))
    for column in [*first["columns"], *again["columns"]]:
        del column["seconds"]
    del first["backtest"], again["backtest"]
    assert first == again
    assert other["input"]["digest"] != first["input"]["digest"]


def test_a_quarter_of_a_slurm_site_in_one_call(operator):
    body = asked(
        SACCT,
        "sacct",
        servers=[{"capacity": {"cpu": 4, "memory": "16Gi"}}],
        policies=["drf", "drfh", "h-mrf", "mrfs", "slots"],
    )
    body["trace"]["encoding"] = "gzip"
    body["trace"]["content"] = base64.b64encode(gzip.compress(SACCT.encode())).decode()
    found = results(operator, body)
    assert found["input"]["left_out"] == {"it never ran": 1}
    assert found["input"]["from"] == "2026-07-01T00:00:00Z"
    assert [column["error"] for column in found["columns"]] == [None] * 5
    assert {row["tenant"] for row in found["columns"][0]["tenants"]} == {"physics", "chemistry"}
    assert found["columns"][1]["pool"]["utilisation"]["cpu"]["mean"] > 0.7


NODES = """JobID|Account|Submit|Start|End|AllocTRES
1|physics|2026-07-01T00:00:00|2026-07-01T00:00:00|2026-07-01T01:00:00|cpu=4,mem=8G,node=1
2|chemistry|2026-07-01T00:10:00|2026-07-01T01:00:00|2026-07-01T02:00:00|cpu=8,mem=8G,node=2
"""


def test_a_job_on_several_nodes_starts_once_all_are_free(operator):
    """Chemistry's job waits for 50 minutes until both servers are free, or one half for none."""
    whole = results(operator, asked(NODES, "sacct", policies=["drfh", "drf", "mrfs"]))
    waited = [column["tenants"][1]["mean_waiting"] for column in whole["columns"][:2]]
    assert waited == [3000, 3000]
    assert whole["columns"][2]["error"]["code"] == "workload.pieces"
    assert whole["input"]["tasks"] == 2
    body = asked(NODES, "sacct", policies=["drfh", "mrfs"])
    body["trace"]["gangs"] = False
    single = results(operator, body)
    assert single["input"]["tasks"] == 3
    assert [column["tenants"][1]["mean_waiting"] for column in single["columns"]] == [1500, 1500]


def test_processors_are_divided_by_the_size_of_a_node(operator):
    """Servers have 4 CPUs, so that a job of 6 processors fits on two of them and on none alone."""
    line = "1 0 -1 600 {} -1 -1 -1 -1 -1 -1 7 1 -1 -1 -1 -1 -1\n"
    content = line.format(6) + line.format(4)
    servers = [{"capacity": {"cpu": 4}, "count": 2}]
    body = asked(content, "swf", servers=servers, policies=["drfh"])
    alone = results(operator, body)
    assert alone["input"]["fits_nowhere"] == {"tasks": 1, "tenants": ["user-7"]}
    body["trace"]["processors_per_node"] = 4
    divided = results(operator, body)
    assert divided["input"]["fits_nowhere"] == {"tasks": 0, "tenants": []}
    assert divided["columns"][0]["pool"]["completion_ratio"]["mean"] == 1
    assert divided["columns"][0]["pool"]["mean_waiting"]["mean"] == 300
    body["trace"]["processors_per_task"] = 4
    refused = operator.post(ALL, body)
    assert code(refused) == (422, "trace.nodes")
    assert refused.json()["errors"][0]["pointer"] == "/trace/processors_per_node"


def test_what_shares_count_is_an_option(operator):
    """Ten servers of 8 CPUs, one task on each: 5 and 5 by tasks over those alone, else 4 and 6."""
    rows = [f"{name},0,3600,{cpus},1" for name, cpus in (("large", 8), ("small", 5))]
    trace = "\n".join(["tenant,submit,duration,demand.cpu,demand.memory", *rows * 10, ""])
    servers = [{"capacity": {"cpu": 8, "memory": 8}, "count": 10}]
    options = [{"share": share} for share in ("dominant", "alone")]
    policies = [{"name": "drfh", "options": option} for option in options]
    found = results(operator, asked(trace, servers=servers, policies=policies))
    waited = [[row["mean_waiting"] for row in column["tenants"]] for column in found["columns"]]
    assert waited == [[2160, 1440], [1800, 1800]]


def test_seeds_are_for_what_draws(operator):
    two = {"name": "drfh", "options": {"placement": "two-choices"}}
    body = asked(policies=["drf", two, "dedicated"], seeds=[1, 2, 3])
    found = finished(operator, body)
    assert found["simulations"] == 1 + 3 + 3
    columns = operator.get(f"{ALL}{found['id']}/results/").json()["columns"]
    assert [column["seeds"] for column in columns] == [[1], [1, 2, 3], [1, 2, 3]]


def test_drawn_jobs_give_every_policy_a_spread(operator):
    many = "tenant,submit,duration,demand.cpu,demand.memory\n" + "".join(
        f"t{number % 3},{number * 40},{600 + number},1,1\n" for number in range(100)
    )
    found = results(operator, asked(many, policies=["drf"], seeds=[1, 2, 3, 4], resample=True))
    spread = found["columns"][0]["pool"]["mean_waiting"]
    assert spread["least"] < spread["mean"] < spread["most"]
    assert spread["deviation"] > 0


def test_formats_of_the_results(operator):
    found = finished(operator, asked())
    path = f"{ALL}{found['id']}/results/"
    rows = operator.get(f"{path}?format=csv").content.decode().splitlines()
    assert rows[0].startswith("policy,options,tenant,submitted,completed,completion_ratio")
    assert [row.split(",")[0] for row in rows[1:]] == ["static", "static", "drfh", "drfh"]
    assert len(operator.get(f"{path}?format=ndjson").content.splitlines()) == 4
    picture = operator.get(f"{path}?format=svg")
    assert picture.headers["Content-Type"].startswith("image/svg+xml")
    assert b"Who gains" not in picture.content
    page = operator.get(f"{path}?format=html")
    assert page.headers["Content-Type"].startswith("text/html")
    text = page.content.decode()
    assert found["input"]["digest"] in text
    assert text.count("<svg") == 2 * 7  # for pages and for phones
    assert text.count("<details>") == 7
    assert "src=" not in text
    assert "<script" not in text


def test_names_in_a_page_are_texts(operator):
    found = finished(operator, asked(CSV.replace("physics", "<b>&amp;"), name="<script>x"))
    text = operator.get(f"{ALL}{found['id']}/results/?format=html").content.decode()
    assert "<script" not in text
    assert "<b>" not in text
    assert "&lt;b&gt;&amp;amp;" in text


def test_there_are_no_results_before_the_end(operator):
    answer = operator.post(ALL, asked())
    path = answer.headers["Location"]
    assert code(operator.get(f"{path}results/")) == (409, "backtest.unfinished")


def test_a_policy_that_cannot_run_it_says_why_and_the_others_answer(world, operator):
    body = {"trace": {"format": "alibaba", "content": ""}, "servers": SERVERS, "policies": ["drf"]}
    assert code(operator.post(ALL, body))[1] == "trace.line"
    columns = results(operator, asked(policies=["slots", {"name": "single-resource"}]))["columns"]
    assert [column["error"] for column in columns] == [None, None]


def test_two_cancels(operator):
    path = operator.post(ALL, asked()).headers["Location"]
    for _ in range(2):
        answer = operator.post(f"{path}cancel/")
        assert answer.status_code == 200
        assert answer.json()["status"] == "cancelled"
    assert work() == 0
    assert operator.get(path).json()["status"] == "cancelled"
    assert code(operator.get(f"{path}results/")) == (409, "backtest.unfinished")


def test_what_has_ended_cannot_be_cancelled(operator):
    found = finished(operator, asked())
    assert code(operator.post(f"{ALL}{found['id']}/cancel/")) == (409, "backtest.finished")
    assert operator.get(f"{ALL}{found['id']}/").json()["status"] == "succeeded"


def test_a_key_may_have_three_open(operator):
    for _ in range(3):
        assert operator.post(ALL, asked()).status_code == 202
    refused = operator.post(ALL, asked())
    assert code(refused) == (409, "backtest.too_many")
    assert refused.headers["Retry-After"]
    assert factories.client("operator").post(ALL, asked()).status_code == 202
    work()
    assert operator.post(ALL, asked()).status_code == 202


def test_the_same_request_twice_is_one_backtest(operator):
    first = operator.post(ALL, asked(), Idempotency_Key="once")
    again = operator.post(ALL, asked(), Idempotency_Key="once")
    assert first.json()["id"] == again.json()["id"]
    assert again.headers["Idempotency-Replayed"] == "true"
    assert len(operator.get(ALL).json()["results"]) == 1


def test_another_keys_backtest_is_absent(world, operator):
    found = finished(world.as_ada, asked())
    for path in (f"{ALL}{found['id']}/", f"{ALL}{found['id']}/results/"):
        for other in (operator, world.as_bob):
            assert code(other.get(path)) == (404, "backtest.not_found")
    assert code(world.as_bob.post(f"{ALL}{found['id']}/cancel/")) == (404, "backtest.not_found")
    assert world.as_bob.get(ALL).json()["results"] == []
    assert [each["id"] for each in world.as_ada.get(ALL).json()["results"]] == [found["id"]]


def test_times_of_submission_get_the_jobs_of_the_mix(operator):
    """SWIM: a hundred jobs of Table 3 have 6,782 tasks, of two tenants in turn."""
    lines = "".join(f"job{i}\t{100 + i}\t1\t0\t0\t0\n" for i in range(120))
    body = asked(lines, "swim", servers=[{"capacity": {"cpu": 16, "memory": 32}, "count": 100}])
    body["trace"] |= {"jobs": 100, "tenants": 2, "seed": 5}
    read = finished(operator, body)["input"]
    assert (read["tasks"], read["jobs"], read["tenants"]) == (6_782, 100, 2)
    body["trace"]["content"] = lines + "job120\t-3\t1\t0\t0\t0\n"
    del body["trace"]["jobs"]
    answer = operator.post(ALL, body)
    assert code(answer) == (422, "trace.line")
    assert "line 121: time of submission is '-3'" in answer.json()["detail"]
    body["trace"] |= {"content": lines, "memory": True}
    assert code(operator.post(ALL, body)) == (422, "trace.option")


def test_who_starts_and_cancels_a_backtest_is_in_the_audit(world):
    """Once each; what is refused, and cancelling again, leaves no row."""
    body = asked(name="night", pool="lab", tenants=[{"name": "physics"}, {"name": "chemistry"}])
    found = world.as_ada.post(ALL, body).json()
    assert world.as_ada.post(ALL, asked(seeds=[1, 1])).status_code == 422
    for _ in range(2):
        assert world.as_ada.post(f"{ALL}{found['id']}/cancel/").status_code == 200
    made, cancelled = AuditEntry.objects.filter(object_type="backtest").order_by("at")
    assert (made.action, made.before, made.pool, made.object_name) == (
        "backtest.create", None, "lab", "night",
    )  # fmt: skip
    assert made.after["spec"] == {
        "policies": [{"name": "static", "options": {}}, {"name": "drfh", "options": {}}],
        "seeds": [0],
        "resample": False,
        "step": None,
        "window": None,
        "trace": {"format": "csv", "begin": None, "options": {"skip_bad_lines": False}},
        "cells": 2,
        "servers": 1,
        "tenants": 2,
        "groups": 0,
    }
    assert (cancelled.action, cancelled.object_id) == ("backtest.cancel", found["id"])
    assert cancelled.before == {"status": "queued", "finished_at": None}
    assert cancelled.after["status"] == "cancelled"
    key = ApiKey.objects.get(tenant=world.ada)
    assert {made.actor, cancelled.actor} == {f"key {key}"}


CALENDAR_ENDS = """JobID|User|Account|Submit|Start|End|AllocTRES|State
{number}|ann|physics|9998-12-31T23:00:00|9998-12-31T23:10:00|9998-12-31T23:59:59|cpu=4,mem=8G|COMPLETED
2|bea|chemistry|9998-12-31T23:05:00|9998-12-31T23:10:00|9998-12-31T23:50:00|cpu=4,mem=16G|COMPLETED
"""
FAR = """tenant,submit,duration,demand.cpu,demand.memory
physics,999999999999999,1000000000000,2,4
chemistry,0,1000000000000,1,8
"""


@pytest.mark.parametrize(
    ("content", "form"),
    [
        pytest.param(CALENDAR_ENDS.format(number=1), "sacct", id="the last year of the calendar"),
        pytest.param(CALENDAR_ENDS.format(number="9" * 5_000), "sacct", id="5,000 digits of a job"),
        pytest.param(FAR, "csv", id="30 million years"),
    ],
)
def test_traces_at_the_edges_of_what_is_read_are_shown(content, form, operator):
    answer = operator.post(ALL, asked(content, form))
    assert answer.status_code == 202, answer.content
    work()
    path = f"{ALL}{answer.json()['id']}/"
    assert operator.get(path).json()["status"] == "succeeded"
    for chosen in ("json", "csv", "svg", "html"):
        assert operator.get(f"{path}results/?format={chosen}").status_code == 200, chosen


def test_a_gzip_file_of_many_empty_members_is_refused(operator):
    members = base64.b64encode(gzip.compress(b"") * 20_000).decode()
    body = asked(members)
    body["trace"]["encoding"] = "gzip"
    answer = operator.post(ALL, body)
    assert code(answer) == (422, "trace.encoding")
