"""Terms of taking back what jobs hold, and reports of jobs that end, over REST."""

from datetime import timedelta

import pytest

from allocator_service.core.clock import utc_now
from allocator_service.core.models import Event
from allocator_service.mail.lines import line_of
from allocator_service.workloads.models import Workload
from tests import factories
from tests.api.v1.enforcement_reports import PATH, report
from tests.pages.browser import browser_of

pytestmark = pytest.mark.django_db(transaction=True)

POOL = "/api/v1/pools/lab/"
SLURM = f"{POOL}decision/renderings/slurm/"
KINDS = ("enforcement.notice", "enforcement.taken_back")


@pytest.fixture
def decided(world):
    """DRFH Fig. 2, decided: ada has 2 CPUs and 10 GiB, bob 10 CPUs and 2 GiB."""
    return factories.decision(world.lab)


def change(operator, **fields):
    return operator.patch(POOL, fields, If_Match=operator.get(POOL)["ETag"])


def test_the_terms_of_a_pool_are_in_renderings_and_change_their_tag(decided, operator):
    before = operator.get(SLURM)
    assert before.json()["reclaim"] == {
        "minimum_run_seconds": 0, "notice_seconds": 0, "churn": None, "interval_seconds": 60,
        "workloads": [],
    }  # fmt: skip
    answer = change(operator, minimum_run="PT30M", notice="PT5M", churn=4)
    assert answer.status_code == 200
    assert {name: answer.json()[name] for name in ("minimum_run", "notice", "churn")} == {
        "minimum_run": "PT30M", "notice": "PT5M", "churn": 4,
    }  # fmt: skip
    after = operator.get(SLURM, If_None_Match=before["ETag"])
    assert after.json()["reclaim"] == {
        "minimum_run_seconds": 1800, "notice_seconds": 300, "churn": 4, "interval_seconds": 60,
        "workloads": [],
    }  # fmt: skip
    assert change(operator, minimum_run=None, notice=None, churn=None).status_code == 200
    assert operator.get(SLURM).json()["reclaim"] == before.json()["reclaim"]


def test_minima_of_workloads_are_in_renderings_and_change_their_tag(decided, operator):
    before = operator.get(SLURM)
    work = Workload.objects.get(tenant__slug="ada")
    path = f"{POOL}workloads/{work.pk}/"
    changed = operator.patch(path, {"minimum_run": "PT2M"}, If_Match=operator.get(path)["ETag"])
    assert changed.status_code == 200
    after = operator.get(SLURM, If_None_Match=before["ETag"])
    assert after.json()["reclaim"]["workloads"] == [
        {"tenant": "ada", "workload": work.name, "minimum_run_seconds": 120}
    ]


def test_the_greatest_weighted_share_loses_first(world, operator):
    Workload.objects.filter(tenant__slug="bob").update(tasks=3)
    factories.decision(world.lab)
    rows = operator.get(SLURM).json()["tenants"]
    assert {row["tenant"]: row["reclaim_rank"] for row in rows} == {"ada": 1, "bob": 2}
    # A member that the decision does not know yet has nothing to lose.
    factories.member(world.lab, factories.tenant("cleo"), None)
    rows = operator.get(SLURM).json()["tenants"]
    assert {row["tenant"]: row["reclaim_rank"] for row in rows} == {"ada": 1, "bob": 2, "cleo": 0}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"minimum_run": "PT0S"}, "duration.zero"),
        ({"minimum_run": "P31D"}, "duration.too_long"),
        ({"notice": "P1Y"}, "duration.too_long"),
        ({"notice": "soon"}, "duration.syntax"),
        ({"churn": 0}, "field.range"),
        ({"churn": -1}, "field.range"),
        ({"churn": 10**9}, "field.range"),
        ({"churn": 1.5}, "field.type"),
        ({"churn": "4"}, "field.type"),
    ],
)
def test_terms_that_mean_nothing_are_refused(decided, operator, fields, code):
    answer = change(operator, **fields)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert (error["pointer"], error["code"]) == (f"/{next(iter(fields))}", code)


def ending(name="17", *, heir="bob", ended=False, tasks=1, seconds=300, **changes):
    at = (utc_now().replace(microsecond=0) + timedelta(seconds=seconds)).isoformat()
    return {
        "name": name, "jobs": [name], "tasks": tasks, "ends_at": at.replace("+00:00", "Z"),
        "heir": heir, "ended": ended, **changes,
    }  # fmt: skip


def put(operator, run, *rows):
    body = report(run)
    body["tenants"][0]["ending"] = list(rows)
    return operator.put(PATH, body)


def events():
    rows = Event.objects.filter(kind__in=KINDS).order_by("pk")
    return [(row.kind, row.tenant, [job["name"] for job in row.payload["jobs"]]) for row in rows]


def test_a_notice_and_an_end_are_shown_and_are_one_event_each(world, decided, operator):
    change(operator, notice="PT5M")
    first, second = ending(), ending("18")
    assert put(operator, decided, first).status_code == 200
    put(operator, decided, first, second)
    put(operator, decided, first, second)
    assert events() == [(KINDS[0], "ada", ["17"]), (KINDS[0], "ada", ["18"])]
    put(operator, decided, first | {"ended": True}, second)
    put(operator, decided, second)
    assert events()[2:] == [(KINDS[1], "ada", ["17"])]

    ada, bob = operator.get(PATH).json()["tenants"]
    assert (ada["ending"], bob["ending"]) == ([second | {"agent": "slurm-lab"}], [])
    (mine,) = world.as_ada.get(PATH).json()["tenants"]
    (row,) = mine["ending"]
    assert row["heir"] is not None
    assert "bob" not in str(mine)
    assert "bob" not in str(list(Event.objects.filter(kind__in=KINDS).values_list("payload")))
    explained = world.as_ada.get(f"/api/v1/runs/{decided.pk}/explanation/ada/").json()
    assert explained["ending"] == [row]
    page = browser_of(world.as_ada).get("/my/pools/lab/").content.decode()
    assert "Job 18 above your part ends at" in page
    assert "Jobs of another member wait for what it holds." in page
    texts = [line_of(each).text for each in Event.objects.filter(kind__in=KINDS).order_by("pk")]
    assert texts[0].startswith("Above your part, to end from ")
    assert texts[2] == "Ended, as above your part: job 17. What ended queues again."


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"heir": "nobody"}, "heir"),
        ({"heir": 5}, "heir"),
        ({"jobs": []}, "jobs"),
        ({"jobs": ["x"] * 101}, "jobs"),
        ({"tasks": 0}, "tasks"),
        ({"tasks": float(10**30)}, "tasks"),
        ({"ends_at": "soon"}, "ends_at"),
        ({"ended": "yes"}, "ended"),
        ({"name": ""}, "name"),
        ({"name": "x" * 401}, "name"),
    ],
)
def test_a_report_of_an_end_that_cannot_be_is_refused(decided, operator, changes, pointer):
    answer = put(operator, decided, ending(**changes))
    assert answer.status_code == 422, answer.content
    assert answer.json()["errors"][0]["pointer"].startswith(f"/tenants/0/ending/0/{pointer}")
    assert events() == []
