"""The demo's pool, its client, its table and its picture."""

import json
import threading
import xml.etree.ElementTree as ET
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from demo import report, sample
from demo.main_job import Decision
from launcher.client import Client
from launcher.console import StepFailed

SVG = "{http://www.w3.org/2000/svg}"


def decision() -> Decision:
    """A decision that gives every group 100 tasks."""
    allocations = [
        {
            "tenant": group.slug,
            "workload": {"id": "0", "name": group.workload},
            "tasks": 100.0,
            "resources": {"cpu": 100 * float(group.cpu), "memory": 100 * float(group.memory)},
            "dominant_resource": "cpu",
            "dominant_share": 0.25,
            "weighted_share": None if group.slug == "teaching" else 1.5,
            "limited_by": "level",
        }
        for group in sample.GROUPS
    ]
    summary = {"tenants": 12, "servers": 12583, "server_classes": 10}
    run = {
        "id": "1",
        "generation": 40,
        "policy": {"name": "drfh"},
        "solve_seconds": 0.0123,
        "summary": {**summary, "utilization": {"cpu": 0.934, "memory": 0.871}},
    }
    checks = [{"name": "capacity", "holds": True}, {"name": "leximin", "holds": False}]
    return Decision(run, allocations, [], {"valid": False, "checks": checks}, 0.456)


def test_the_servers_are_those_of_drfh_table_1():
    rows = [row for rows in sample.server_requests() for row in rows]
    assert sum(row["count"] for row in rows) == 12_583
    assert sample.totals() == pytest.approx({"cpu": 6_659.0, "memory": 5_921.8})
    assert len({row["name"] for row in rows}) == len(rows)


def test_what_the_groups_brought_is_the_whole_pool():
    brought = [sample.brought_percent(group.slug) for group in sample.GROUPS]
    assert [sum(column) for column in zip(*brought, strict=True)] == pytest.approx([100, 100])
    assert all(percent > 0 for percents in brought for percent in percents)


def test_the_table_shows_each_group_and_each_check():
    lines = report.table(decision()).splitlines()
    assert lines[1] == (
        "Decision of generation 40, 0.46 s after it (0.012 s in the solver), policy drfh:"
    )
    assert lines[2] == (
        "12 tenants on 12,583 servers of 10 classes use 93.4% of cpu, 87.1% of memory"
    )
    astronomy = next(line for line in lines if line.startswith("astronomy"))
    brought = [f"{percent:.1f} %" for percent in sample.brought_percent("astronomy")]
    got = [f"{200 / 6_659:.1f} %", f"{600 / 5_921.8:.1f} %"]
    words = ["astronomy", *brought, "100.0", *got, "cpu 25.00%", "1.5000", "level"]
    assert astronomy.split() == " ".join(words).split()
    assert lines[-3:] == [
        "Verified without a solver: INVALID",
        "  ok     capacity",
        "  FAILED leximin",
    ]


def test_columns_are_as_wide_as_their_widest_cell():
    lines = [line for line in report.table(decision()).splitlines() if " level" in line]
    assert {line.rindex("level") for line in lines if not line.startswith(" ")} == {
        lines[0].rindex("level")
    }


def test_the_picture_has_a_bar_and_a_mark_for_each_group_and_resource():
    root = ET.fromstring(report.picture(decision()))
    fills = [rect.get("fill") for rect in root.iter(f"{SVG}rect")]
    # One of each colour is in the legend.
    assert fills.count("#0072B2") == 12 + 1
    assert fills.count("#E69F00") == 12 + 1
    marks = [line for line in root.iter(f"{SVG}line") if line.get("stroke-width") == "2.5"]
    assert len(marks) == 24 + 1
    words = [text.text for text in root.iter(f"{SVG}text")]
    for expected in (*(group.name for group in sample.GROUPS), "CPU, allocated", "contributed"):
        assert expected in words


class Service(BaseHTTPRequestHandler):
    """Answers two pages of a list, and refuses everything that is posted."""

    def do_GET(self):
        first = "cursor" not in self.path
        following = f"http://{self.headers['Host']}/list/?cursor=2" if first else None
        self.answer(200, {"results": [1, 2] if first else [3], "next": following})

    def do_POST(self):
        length = int(self.headers["Content-Length"])
        sent = json.loads(self.rfile.read(length))
        self.answer(
            422, {"code": "demo.refused", "sent": sent, "key": self.headers["Authorization"]}
        )

    def answer(self, status: int, body: object) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def client():
    server = HTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield Client(f"http://127.0.0.1:{server.server_port}", "k3y")
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_client_reads_every_page_of_a_list(client):
    assert client.pages("/list/") == [1, 2, 3]


def test_the_client_shows_what_was_refused_and_why(client):
    with pytest.raises(StepFailed) as failure:
        client.post("/things/", {"a": 1})
    assert failure.value.step == "POST /things/ was answered with 422"
    assert '"code": "demo.refused"' in str(failure.value)


def test_a_refusal_can_be_looked_at(client):
    answer = client.request("POST", "/things/", {"a": 1})
    assert answer.status == 422
    assert answer.body == {"code": "demo.refused", "sent": {"a": 1}, "key": "Bearer k3y"}
