"""Imports of tasks of several pieces, from CSV and from Kueue."""

import pytest

from allocator_service.workloads.models import Workload
from tests import factories
from tests.api.v1.gangs import PATH, pool_of
from tests.kueue_cases import pod_set, workload

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def pool(operator):
    return pool_of(operator, "indivisible")


GANG_COLUMNS = "pieces,second_pieces,second_demand.gpu,per_server,together,at_least"
COLUMNS = f"tenant,name,tasks,demand.gpu,{GANG_COLUMNS}"


def imported(operator, *rows, **options):
    content = "\n".join([COLUMNS, *rows])
    return operator.post(f"{PATH}/imports/workloads/", {"content": content, **options}).json()


def stored(name):
    found = Workload.objects.get(name=name)
    pieces = [(each["count"], float(each["demand"]["gpu"])) for each in found.pieces]
    gang = (pieces, found.per_server, found.together, found.at_least)
    return [float(amount) for amount in found.demand], *gang


def test_gangs_come_from_csv_and_the_same_file_changes_nothing(pool, operator):
    rows = (
        "mpi,mpi,2,8,3,,,1,rack,",
        "mpi,train,2,1,,4,0.5,,,2",
        "solo,solo,40,1,,,,,,",
    )
    assert imported(operator, *rows)["counts"]["added"] == 3
    assert stored("mpi") == ([24.0], [(3, 8.0)], 1, "rack", 1)
    assert stored("train") == ([3.0], [(1, 1.0), (4, 0.5)], None, "", 2)
    assert stored("solo") == ([1.0], [], None, "", 1)
    assert imported(operator, *rows)["counts"]["unchanged"] == 3
    assert imported(operator, "mpi,mpi,2,8,4,,,,,")["counts"]["changed"] == 1
    assert stored("mpi")[1:4] == ([(4, 8.0)], None, "")
    # A row without any of the columns keeps the pieces, whose sum is the demand.
    assert imported(operator, "mpi,mpi,3,32,,,,,,")["counts"]["changed"] == 1
    assert stored("mpi")[1] == [(4, 8.0)]
    assert imported(operator, "mpi,mpi,3,8,1,,,,,")["counts"]["changed"] == 1
    assert stored("mpi")[:2] == ([8.0], [])


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ("mpi,a,1,1,0,,,,,", "field.range"),
        ("mpi,a,1,1,x,,,,,", "field.type"),
        ("mpi,a,1,1,10001,,,,,", "field.range"),
        ("mpi,a,1,1,6000,,,,,2", "workload.pieces"),
        ("mpi,a,1,1,2,3,,,,", "demand.zero"),
        ("mpi,a,1,1,1,,,3,,", "workload.per_server"),
        ("mpi,a,1,1,1,,,,rack,", "workload.together"),
        ("mpi,a,1,1,2,3,-1,,,", "quantity.negative"),
        ("mpi,a,2,1,2,,,,,3", "workload.at_least"),
    ],
)
def test_a_row_with_a_gang_that_no_pool_can_run_is_refused(pool, operator, row, code):
    answer = imported(operator, row)
    assert answer["code"] == "import.refused"
    assert answer["errors"][0]["code"] == code
    assert not Workload.objects.exists()


def test_a_gang_that_the_pool_cannot_run_is_refused_with_its_row(operator):
    """Other rows are written, and the agent learns by a dry run that it cannot send any."""
    pool_of(operator, "indivisible", policy="mrfs")
    rows = ("mpi,mpi,2,8,3,,,,,", "solo,solo,4,1,,,,,,")
    dry = imported(operator, *rows, dry_run=True, skip_refused=True)
    assert [row["errors"][0]["code"] for row in dry["rows"] if row["errors"]] == ["workload.pieces"]
    assert imported(operator, *rows, skip_refused=True)["counts"]["added"] == 1
    assert [each.name for each in Workload.objects.all()] == ["solo"]


PODS = [pod_set("head", 1, 4), pod_set("workers", 3, 1)]


def kueue_imported(operator, *items):
    body = {"format": "kubernetes", "content": {"items": list(items)}, "register_tenants": True}
    return operator.post(f"{PATH}/imports/workloads/", body).json()


def test_pod_sets_of_kueue_become_gangs_and_the_same_file_changes_nothing(operator):
    factories.pool("shared", mode="indivisible")
    assert kueue_imported(operator, workload(*PODS))["counts"]["added"] == 1

    def pieces():
        found = Workload.objects.get(tenant__slug="a")
        assert (found.name, found.tasks) == ("w", 1)
        return [(each["count"], float(each["demand"]["cpu"])) for each in found.pieces]

    assert pieces() == [(3, 1), (1, 4)]
    assert kueue_imported(operator, workload(*PODS))["counts"]["unchanged"] == 1
    assert kueue_imported(operator, workload(pod_set("main", 4, 1)))["counts"]["changed"] == 1
    assert pieces() == [(4, 1)]
    assert kueue_imported(operator, workload(pod_set("main", 1, 1)))["counts"]["changed"] == 1
    assert pieces() == []


@pytest.mark.parametrize("policy", ["mrfs", "static"])
def test_pod_sets_are_single_tasks_where_the_pool_cannot_run_gangs(operator, policy):
    factories.pool("shared", policy=policy)
    assert kueue_imported(operator, workload(*PODS))["counts"]["added"] == 2
    found = Workload.objects.order_by("name")
    told = [(each.name, each.tasks, float(each.demand[0]), each.pieces) for each in found]
    assert told == [("w", 3, 1, []), ("w-2", 1, 4, [])]
    assert kueue_imported(operator, workload(*PODS))["counts"]["unchanged"] == 2


def test_only_gangs_of_two_kinds_are_single_tasks_where_one_kind_is_taken(operator):
    """A pool of divisible tasks counts the sum of pieces that are all alike."""
    factories.pool("shared", mode="divisible")
    alike = workload(pod_set("main", 4, 2), name="mpi")
    answer = kueue_imported(operator, workload(*PODS), alike)
    assert answer["counts"]["added"] == 3
    found = Workload.objects.order_by("name")
    told = [(each.name, each.tasks, float(each.demand[0]), len(each.pieces)) for each in found]
    assert told == [("mpi", 1, 8, 1), ("w", 3, 1, 0), ("w-2", 1, 4, 0)]
    assert kueue_imported(operator, workload(*PODS), alike)["counts"]["unchanged"] == 3
