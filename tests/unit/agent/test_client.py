"""The agent's client and its settings: what is tried again, what is said, and what never leaks."""

import pytest

from allocator_agent.cli import main
from allocator_agent.configuration import Configuration, read_configuration
from allocator_agent.errors import Misconfigured, Refused, ServiceAway
from allocator_agent.service import Service


def service(scripted, pauses=None, **settings):
    configuration = Configuration(
        url=scripted.url,
        pool="lab",
        key="alloc_secret",
        name="agent",
        scheduler="slurm",
        **settings,
    )
    return Service(configuration, sleep=(pauses if pauses is not None else []).append)


DONE = (200, {"Pool-Generation": "7"}, {"rows": [], "generation": 7})


def test_a_change_is_tried_again_under_the_same_key(scripted):
    told = scripted(None, (503, {"Retry-After": "2"}, {}), (429, {"Retry-After": "\xb2"}, {}), DONE)
    pauses = []
    assert service(told, pauses).import_rows("nodes", {})[1] == 7
    keys = {headers["Idempotency-Key"] for _, _, headers in told.asked}
    assert (len(told.asked), len(keys)) == (4, 1)
    assert pauses[1] == 2
    assert len(pauses) == 3


def test_a_twin_that_is_at_work_is_waited_for(scripted):
    told = scripted((409, {}, {"code": "idempotency.in_flight", "detail": "wait"}), DONE)
    assert service(told).import_rows("nodes", {})[1] == 7


def test_a_refusal_is_said_in_the_services_words_and_not_tried_again(scripted):
    problem = {
        "code": "import.refused",
        "detail": "Nothing was written.",
        "errors": [{"pointer": "/content", "detail": "Line 2: no."}],
    }
    told = scripted((422, {}, problem))
    with pytest.raises(
        Refused, match=r"422 import.refused\): Nothing was written. /content Line 2"
    ):
        service(told).import_rows("nodes", {})
    assert len(told.asked) == 1


@pytest.mark.parametrize(
    "answers",
    [
        [None] * 4,
        [(502, {}, b"<html>")] * 4,
        [(500, {}, {})],
        [(200, {}, b"{cut")] * 4,
        [(409, {}, {"code": "idempotency.in_flight", "detail": "wait"})] * 4,
    ],
)
def test_a_service_that_is_away_is_said_and_the_key_is_not(scripted, answers):
    told = scripted(*answers)
    with pytest.raises(ServiceAway) as away:
        service(told).import_rows("nodes", {})
    assert "alloc_secret" not in str(away.value)
    assert told.answers == []


def test_lists_are_read_to_their_end(scripted):
    base = "/api/v1/pools/lab/workloads/"
    first = {"results": [{"id": 1}], "next": f"http://elsewhere{base}?cursor=x&limit=1000"}
    told = scripted((200, {}, first), (200, {}, {"results": [{"id": 2}], "next": None}))
    assert service(told).listed("workloads") == [{"id": 1}, {"id": 2}]
    assert [path for _, path, _ in told.asked] == [
        f"{base}?limit=1000",
        f"{base}?cursor=x&limit=1000",
    ]


def test_a_rendering_that_is_the_same_is_not_sent_again(scripted):
    body = {"run": "r", "generation": 3, "tenants": [], "objects": []}
    told = scripted((200, {"ETag": '"e1"'}, body), (304, {}, b""))
    asking = service(told)
    first = asking.rendering("slurm", "partition")
    assert asking.rendering("slurm", "partition") is first
    assert told.asked[1][2]["If-None-Match"] == '"e1"'


def test_no_decision_is_none_and_other_absences_are_refusals(scripted):
    told = scripted((404, {}, {"code": "decision.none"}), (404, {}, {"code": "pool.not_found"}))
    assert service(told).rendering("slurm", "partition") is None
    with pytest.raises(Refused, match=r"pool\.not_found"):
        service(told).rendering("slurm", "partition")


def test_a_report_that_is_older_than_the_stored_one_is_let_go(scripted):
    told = scripted((409, {}, {"code": "enforcement.older"}), (422, {}, {"code": "field.type"}))
    service(told).report({})
    with pytest.raises(Refused):
        service(told).report({})


# Settings

MINIMAL = "[service]\nurl = http://localhost\npool = lab\n[agent]\nname = slurm-lab\n"


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("ALLOCATOR_KEY", "alloc_secret")

    def write(text):
        path = tmp_path / "agent.ini"
        path.write_text(text)
        return path

    return write


def test_settings_have_defaults_and_accounts_keep_their_letters(file):
    read = read_configuration(file(MINIMAL + "[accounts]\nDept.Physics = phys\n"))
    assert (read.scheduler, read.reclaim, read.slurm.classes) == ("slurm", "none", False)
    assert read.tenant_of("Dept.Physics") == "phys"
    assert read.tenant_of("My_Group.B") == "my-group-b"
    assert "alloc_secret" not in repr(read)


def test_the_example_has_every_setting_with_its_default(file):
    from pathlib import Path

    example = Path(__file__).parents[3] / "agent" / "agent.ini.example"
    text = example.read_text().replace("key_file = %d/key", "").replace("\n; ", "\n")
    prose = [line for line in text.splitlines() if " = " in line or line.startswith("[")]
    lines = [line for line in prose if "Slurm account" not in line]
    read = read_configuration(file("\n".join(lines)))
    assert (read.timeout, read.decision_wait, read.usage_hours) == (10, 5, 24)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "lacks name"),
        ("[agent]\nname = x\n", "lacks url"),
        (MINIMAL.replace("http://localhost", "localhost"), "url begins with https://"),
        (MINIMAL + "reclaim = sometimes\n", "reclaim is one of none, requeue"),
        (MINIMAL + "decision_wait = NaN\n", "decision_wait is a number from 0 on"),
        (MINIMAL + "register_tenants = perhaps\n", "register_tenants is yes or no"),
        (MINIMAL + "[slurm]\nclases = yes\n", r"\[slurm\] clases is unknown; known are bin"),
        (MINIMAL + "[slurmm]\n", r"\[slurmm\]  is unknown; known are service"),
        (MINIMAL.replace("slurm-lab", "Slurm Lab"), "name is made of a-z"),
        (MINIMAL + "[service]\nurl = x\n", "cannot be read"),
        (MINIMAL.replace("pool = lab", "pool = lab\nkey_file = /nowhere"), "key in /nowhere"),
    ],
)
def test_a_wrong_setting_is_named_with_what_would_do(file, text, said):
    with pytest.raises(Misconfigured, match=said):
        read_configuration(file(text))


def test_a_wrong_configuration_ends_with_2_and_a_service_that_is_away_with_3(
    file, capsys, monkeypatch
):
    assert main(["--config", "/nowhere.ini"]) == 2
    monkeypatch.setattr("allocator_agent.cli.scheduler_of", lambda _: Idle())
    monkeypatch.setattr("allocator_agent.service._FIRST_PAUSE_SECONDS", 0.01)
    gone = file(MINIMAL.replace("http://localhost", "http://127.0.0.1:1"))
    assert main(["--config", str(gone), "--once"]) == 3
    told = capsys.readouterr().err
    assert "http://127.0.0.1:1 does not answer" in told
    assert "Traceback" not in told


class Idle:
    """A scheduler with nothing in it."""

    def observe(self):
        from allocator_agent.model import Observation

        return Observation([], [], frozenset())
