"""Reports over REST: totals equal to the ledger's, as JSON, rows and pictures; nobody else's."""

import csv
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from xml.etree import ElementTree as ET

import pytest
from django.db import connection

from allocator_service.core.clock import utc_now
from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.ledger.reporting import limits
from allocator_service.pools.member_services import members_admit
from allocator_service.pools.models import Contribution, MembershipTerms
from allocator_service.pools.server_services import ServerSettings, server_retire, server_update
from tests import factories

pytestmark = pytest.mark.django_db

LAB = "/api/v1/pools/lab/reports"
MONDAY = datetime(2026, 10, 5, tzinfo=UTC)
OCTOBER = "from=2026-10-05T00:00:00Z&to=2026-10-07T00:00:00Z"
DAY = timedelta(days=1)


def add(pool, tenant, kind, resource, quantity, day=0, owner=None, days=1):
    """An entry of whole days of October, sealed."""
    entries_append(
        [
            {
                "pool_id": pool.pk,
                "tenant_id": tenant.pk,
                "server_owner_id": owner and owner.pk,
                "workload_id": None,
                "resource": resource,
                "unit": "core",
                "quantity": Decimal(str(quantity)),
                "start": MONDAY + day * DAY,
                "end": MONDAY + (day + days) * DAY,
                "kind": kind,
                "corrects": None,
                "reason": "",
                "source": "test",
                "event_id": None,
                "run_id": None,
                "recorded_at": utc_now(),
            }
        ]
    )
    entries_seal(now=utc_now())
    if day == 0:  # what follows is past the end of the totals
        totals_advance()


@pytest.fixture
def shared(world):
    """Two days in `lab`: ada 3 and 5 cores beside 2 alone, bob 1 and 1 beside 2 alone."""
    for day, quantity in enumerate(("3", "5")):
        add(world.lab, world.ada, "usage", "cpu", quantity, day)
        add(world.lab, world.ada, "alone", "cpu", "2", day)
        add(world.lab, world.bob, "usage", "cpu", "1", day)
        add(world.lab, world.bob, "alone", "cpu", "2", day)
    return world


def rows_of(response):
    return list(csv.DictReader(response.content.decode().splitlines()))


class TestSharingDegree:
    PATH = f"{LAB}/sharing-degree/"

    def test_the_series_and_the_total(self, shared, billing):
        answer = billing.get(f"{self.PATH}?{OCTOBER}&step=P1D")
        assert answer.status_code == 200
        told = answer.json()
        assert (told["from"], told["to"]) == ("2026-10-05T00:00:00Z", "2026-10-07T00:00:00Z")
        assert (told["report"], told["baseline"]) == ("sharing-degree", "entitled")
        assert told["total"] == {"cpu": str(10 * 86_400), "memory": "0"}
        ada, bob = told["tenants"]
        assert ada["used"]["cpu"] == str(8 * 86_400)
        assert ada["sharing_degree"] == {"resources": {"cpu": 2.0, "memory": None}, "min": 2.0}
        assert (ada["reasons"], ada["reason"], ada["benefit"]) == (
            {"memory": "no_demand"},
            None,
            True,
        )
        assert [interval["sharing_degree"]["min"] for interval in ada["series"]] == [1.5, 2.5]
        assert (bob["sharing_degree"]["min"], bob["benefit"]) == (0.5, False)

    def test_rows_add_up_to_the_total_and_are_the_same_in_both_formats(self, shared, billing):
        path = f"{self.PATH}?{OCTOBER}&step=P1D"
        rows = rows_of(billing.get(f"{path}&format=csv"))
        assert len(rows) == 2 * 2 * 2
        assert sum(Decimal(row["used"]) for row in rows) == 10 * 86_400
        assert rows[0] == {
            "tenant": "ada", "start": "2026-10-05T00:00:00Z", "end": "2026-10-06T00:00:00Z",
            "resource": "cpu", "unit": "core", "used": "259200", "alone": "172800",
            "sharing_degree": "1.5", "reason": "",
        }  # fmt: skip
        lines = billing.get(f"{path}&format=ndjson")
        assert lines.headers["Content-Type"] == "application/x-ndjson"
        assert len(lines.content.splitlines()) == len(rows)

    def test_a_picture_has_axes_a_unit_and_a_legend(self, shared, billing):
        answer = billing.get(f"{self.PATH}?{OCTOBER}&step=P1D", Accept="image/svg+xml")
        assert answer.headers["Content-Type"] == "image/svg+xml; charset=utf-8"
        texts = {text.text for text in ET.fromstring(answer.content).iter() if text.text}
        assert {"ada", "bob", "cpu", "memory", "used ÷ alone", "6 Oct"} <= texts
        assert any(text.startswith("Sharing degree in lab") for text in texts)

    def test_a_tenant_sees_itself_only(self, shared):
        mine = shared.as_ada.get(f"{self.PATH}?{OCTOBER}").json()
        assert [each["tenant"] for each in mine["tenants"]] == ["ada"]
        assert mine["total"]["cpu"] == str(8 * 86_400)
        for other in ("bob", "nobody"):
            asked = shared.as_ada.get(f"{self.PATH}?{OCTOBER}&tenant={other}")
            assert (asked.status_code, asked.json()["code"]) == (404, "tenant.not_found")
        own = shared.as_ada.get(f"{self.PATH}?{OCTOBER}&tenant=ada").json()
        assert own == mine
        picture = shared.as_ada.get(f"{self.PATH}?{OCTOBER}&step=P1D&format=svg").content
        assert b"bob" not in picture

    def test_in_a_transparent_pool_the_others_are_pseudonyms(self, shared):
        shared.lab.transparent = True
        shared.lab.save()
        answer = shared.as_ada.get(f"{self.PATH}?{OCTOBER}")
        names = [each["tenant"] for each in answer.json()["tenants"]]
        assert len(names) == 2
        assert "ada" in names
        assert names == sorted(names)
        assert b"bob" not in answer.content
        for name, status in ((names[0], 200), (names[1], 200), ("bob", 404), ("nobody", 404)):
            asked = shared.as_ada.get(f"{self.PATH}?{OCTOBER}&tenant={name}")
            assert asked.status_code == status, name

    def test_one_tenant_of_many(self, shared, operator):
        told = operator.get(f"{self.PATH}?{OCTOBER}&tenant=bob").json()
        assert [each["tenant"] for each in told["tenants"]] == ["bob"]
        assert told["total"]["cpu"] == str(2 * 86_400)
        for unknown in ("nobody", "BOB", "b o b", "ä"):
            asked = operator.get(f"{self.PATH}?{OCTOBER}&tenant={unknown}")
            assert (asked.status_code, asked.json()["code"]) == (404, "tenant.not_found")


@pytest.fixture
def lent(world):
    """Two days: ada ran 2 cores on its own server and 1 on bob's; bob half of one on ada's, and 1.5."""
    for day in (0, 1):
        add(world.lab, world.ada, "usage", "cpu", 2, day, owner=world.ada)
        add(world.lab, world.ada, "usage", "cpu", 1, day, owner=world.bob)
        add(world.lab, world.bob, "usage", "cpu", "0.5", day, owner=world.ada)
        add(world.lab, world.bob, "usage", "cpu", "1.5", day)
    Contribution.objects.update(start=MONDAY)
    MembershipTerms.objects.update(start=MONDAY)
    return world


class TestLending:
    PATH = f"{LAB}/lending/?{OCTOBER}"

    def test_flows_and_balances(self, lent, billing):
        told = billing.get(self.PATH).json()
        assert told["total"]["cpu"] == str(10 * 86_400)
        assert [(f["owner"], f["tenant"], f["used"]["cpu"]) for f in told["flows"]] == [
            ("ada", "ada", str(4 * 86_400)),
            ("ada", "bob", str(86_400)),
            ("bob", "ada", str(2 * 86_400)),
            (None, "bob", str(3 * 86_400)),
        ]
        (balance,) = told["balances"]
        assert (balance["tenant"], balance["other"]) == ("ada", "bob")
        assert [balance[name]["cpu"] for name in ("lent", "borrowed", "balance")] == [
            "86400", "172800", "-86400",
        ]  # fmt: skip

    def test_what_would_be_used_alone_is_lent_by_nobody(self, lent, billing):
        before = billing.get(self.PATH).json()["flows"]
        add(lent.lab, lent.ada, "alone", "cpu", 5, owner=lent.bob)
        assert billing.get(self.PATH).json()["flows"] == before

    def test_a_member_that_used_nothing_has_a_row_of_zeros(self, lent, billing):
        members_admit(pool=lent.lab, tenants=[factories.tenant("new")], now=MONDAY)
        flow = billing.get(self.PATH).json()["flows"][-1]
        assert (flow["owner"], flow["tenant"], flow["used"]["cpu"]) == (None, "new", "0")

    def test_the_picture_says_where_nobody_knows_whose_servers_they_were(self, lent, billing):
        path = f"{self.PATH}&format=svg"
        assert b"ran on the pool" in billing.get(path).content
        lent.lab.policy_places = False
        lent.lab.save()
        assert b"on whose: not known" in billing.get(path).content

    def test_rows_add_up(self, lent, billing):
        rows = rows_of(billing.get(f"{self.PATH}&step=P1D&format=csv"))
        assert sum(Decimal(row["used"]) for row in rows) == 10 * 86_400
        assert {row["owner"] for row in rows} == {"ada", "bob", ""}

    def test_a_tenant_sees_what_concerns_it_and_the_others_by_pseudonym(self, lent):
        add(lent.lab, lent.bob, "usage", "cpu", 7, owner=lent.bob)
        answer = lent.as_ada.get(self.PATH)
        assert b"bob" not in answer.content
        told = answer.json()
        assert len(told["flows"]) == 3  # not what bob ran on its own and on the pool's
        assert told["total"]["cpu"] == str(7 * 86_400)
        assert [flow["tenant"] for flow in told["flows"]].count("ada") == 2


class TestUtilization:
    PATH = f"{LAB}/utilization/?{OCTOBER}"

    def test_use_and_idle_are_the_capacity(self, lent, operator):
        told = operator.get(f"{self.PATH}&step=P1D").json()
        assert told["total"]["capacity"]["cpu"] == str(14 * 2 * 86_400)
        assert told["total"]["used"]["cpu"] == str(10 * 86_400)
        assert told["total"]["idle"]["cpu"] == str(18 * 86_400)
        assert told["total"]["utilization"] == {"cpu": pytest.approx(10 / 28), "memory": 0.0}
        assert [interval["used"]["cpu"] for interval in told["series"]] == [str(5 * 86_400)] * 2

    def test_past_capacity_is_what_it_was_then(self, lent, operator):
        """Halved after the first day; the other server went at noon of the second."""
        noon = MONDAY + 1.5 * DAY
        server_retire(server=lent.ada_server, now=noon)
        settings = ServerSettings("high-cpu", [Decimal(6), Decimal(2)], {})
        server_update(server=lent.bob_server, settings=settings, version=None, now=MONDAY + DAY)
        told = operator.get(f"{self.PATH}&step=P1D").json()
        assert [interval["capacity"]["cpu"] for interval in told["series"]] == [
            str(14 * 86_400),
            str(7 * 86_400),
        ]

    def test_without_capacity_there_is_none_and_it_says_so(self, world, operator):
        told = operator.get(self.PATH).json()["total"]
        assert (told["utilization"], told["reason"]) == (
            {"cpu": None, "memory": None},
            "no_capacity",
        )

    def test_one_tenant_of_many(self, lent, operator):
        told = operator.get(f"{self.PATH}&tenant=bob").json()["total"]
        assert told["used"]["cpu"] == str(4 * 86_400)


class TestFairness:
    PATH = f"{LAB}/fairness/?{OCTOBER}"

    def test_shares_and_jain_s_index(self, lent, operator):
        told = operator.get(f"{self.PATH}&step=P1D").json()
        ada, bob = told["tenants"]
        assert (ada["dominant_share"], ada["weight"]) == (pytest.approx(6 / 28), 1.0)
        assert bob["weighted_share"] == pytest.approx(4 / 28)
        assert told["jain_index"] == pytest.approx(100 / (2 * (36 + 16)))
        assert [interval["jain_index"] for interval in told["series"]] == [
            pytest.approx(100 / (2 * (36 + 16)))
        ] * 2

    def test_weights_by_contribution_are_of_the_period(self, lent, operator):
        lent.lab.weights = "contribution"
        lent.lab.save()
        ada, bob = operator.get(self.PATH).json()["tenants"]
        assert ada["weight"] == pytest.approx(12 / 14)  # memory
        assert bob["weight"] == pytest.approx(12 / 14)  # cpu

    @pytest.mark.django_db(transaction=True)
    def test_who_wanted_more_envies_who_had_more(self, falsifiable, lent, operator):
        run = factories.decision(lent.lab)
        run.effective_from = MONDAY
        run.save()
        told = operator.get(self.PATH).json()
        assert told["envy_pairs"] == 1
        assert told["envy"] == [{"tenant": "bob", "other": "ada", "times": 1.5}]
        run.allocations.update(limited_by="task_limit")
        assert operator.get(self.PATH).json()["envy"] == []


@pytest.mark.parametrize("report", ["fairness", "utilization"])
def test_reports_of_the_whole_pool_are_absent_for_its_tenants_unless_it_is_transparent(
    lent, report
):
    path = f"{LAB}/{report}/?{OCTOBER}"
    refused = lent.as_ada.get(path)
    assert (refused.status_code, refused.json()["code"]) == (404, "report.not_found")
    lent.lab.transparent = True
    lent.lab.save()
    for chosen in ("json", "csv", "ndjson", "svg"):
        answer = lent.as_ada.get(f"{path}&format={chosen}")
        assert answer.status_code == 200
        assert b"bob" not in answer.content


REPORTS = ["sharing-degree", "lending", "utilization", "fairness"]


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize(
    ("query", "code", "parameter"),
    [
        ("from=yesterday", "parameter.value", "from"),
        ("step=1d", "parameter.value", "step"),
        ("since=2026-10-05T00:00:00Z", "parameter.unknown", "since"),
        ("to=0001-01-01T00:00:00Z", "report.period", "to"),
        ("from=2026-10-05T00:00:00Z&to=2026-10-05T00:00:00Z", "report.period", "from"),
        ("from=2026-10-05T00:00:00Z&to=2026-10-06T00:00:00Z&step=PT1S", "report.period", "step"),
    ],
)
def test_what_is_no_period_is_refused(world, operator, report, query, code, parameter):
    answer = operator.get(f"{LAB}/{report}/?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert answer.json()["parameter"] == parameter


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_of_nothing_is_empty_in_every_format(operator, report):
    factories.pool("lab")
    for chosen in ("json", "csv", "ndjson", "svg"):
        answer = operator.get(f"{LAB}/{report}/?format={chosen}")
        assert answer.status_code == 200, answer.content
        if chosen == "svg":
            ET.fromstring(answer.content)


@pytest.mark.parametrize("report", REPORTS)
def test_another_pool_is_as_one_that_does_not_exist(world, report):
    told = [
        world.as_ada.get(f"/api/v1/pools/{slug}/reports/{report}/") for slug in ("other", "nowhere")
    ]
    assert {answer.status_code for answer in told} == {404}
    assert {answer.json()["code"] for answer in told} == {"pool.not_found"}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("report", ["sharing-degree", "lending", "utilization"])
def test_a_report_that_the_database_gives_up_is_to_be_asked_for_again(report, shared, operator):
    """Another transaction holds the ledger until the statement is given up."""
    holder = connection.copy()
    holder.set_autocommit(False)
    with holder.cursor() as locking, connection.cursor() as cursor:
        locking.execute("LOCK TABLE ledger_entry IN ACCESS EXCLUSIVE MODE")
        cursor.execute("SET statement_timeout = '300ms'")
        response = operator.get(f"{LAB}/{report}/?{OCTOBER}")
        cursor.execute("RESET statement_timeout")
    holder.rollback()
    holder.close()
    assert (response.status_code, response.json()["code"]) == (503, "database.unavailable")
    assert response.headers["Retry-After"]


@pytest.mark.parametrize("report", ["sharing-degree", "lending", "fairness"])
@pytest.mark.parametrize("many", [1, 100], ids=["before it is read", "as it is read"])
def test_a_report_of_too_many_values_is_refused(report, many, shared, operator, monkeypatch):
    monkeypatch.setattr(limits, "MANY_INTERVALS", many)
    path = f"{LAB}/{report}/?{OCTOBER}&step=P1D"
    values = {"sharing-degree": 8, "lending": 8, "fairness": 4}[report]
    monkeypatch.setattr(limits, "MAX_CELLS", values)
    assert operator.get(path).status_code == 200
    monkeypatch.setattr(limits, "MAX_CELLS", values - 1)
    refused = operator.get(path)
    assert (refused.status_code, refused.json()["code"]) == (422, "report.too_long")
    assert f"{values} values" in refused.json()["detail"]
