"""Reports of a group over REST: its sum and its children, by the tree as it was at each instant."""

import csv
import random
from datetime import timedelta
from decimal import Decimal, localcontext
from xml.etree import ElementTree as ET

import pytest

from allocator_service.ledger.amounts.totals import totals_advance
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.intake.sealing import entries_seal
from allocator_service.pools.models import GroupTerms, MembershipTerms
from tests import factories
from tests.api.v1.test_reports import DAY, LAB, MONDAY, OCTOBER, add

pytestmark = pytest.mark.django_db

REPORTS = ["sharing-degree", "lending", "utilization"]
HOUR = timedelta(hours=1)


def belonging(tenant, *terms):
    """Replace the terms of a member by groups and their starts."""
    membership = tenant.memberships.get(pool__slug="lab")
    MembershipTerms.objects.filter(membership=membership).delete()
    for (group, start), (_, end) in zip(terms, [*terms[1:], (None, None)], strict=True):
        MembershipTerms.objects.create(membership=membership, group=group, start=start, end=end)


def below(group, *terms):
    """Replace the terms of a group by parents and their starts."""
    GroupTerms.objects.filter(group=group).delete()
    for (parent, start), (_, end) in zip(terms, [*terms[1:], (None, None)], strict=True):
        GroupTerms.objects.create(group=group, parent=parent, start=start, end=end)


@pytest.fixture
def moving(world):
    """science > ml. On the first day ada is in ml and bob in the pool; at 18:00 bob joins science.

    On the second day ada moves to science at noon.
    """
    world.science = factories.group(world.lab, "science")
    world.ml = factories.group(world.lab, "ml", "science")
    start = MONDAY - DAY
    below(world.science, (None, start))
    below(world.ml, (world.science, start))
    belonging(world.ada, (world.ml, start), (world.science, MONDAY + 36 * HOUR))
    belonging(world.bob, (None, start), (world.science, MONDAY + 18 * HOUR))
    for day, quantity in enumerate(("3", "5")):
        add(world.lab, world.ada, "usage", "cpu", quantity, day, owner=world.bob)
        add(world.lab, world.ada, "alone", "cpu", "2", day)
        add(world.lab, world.bob, "usage", "cpu", "1", day)
        add(world.lab, world.bob, "alone", "cpu", "2", day)
    return world


def hours(text):
    return Decimal(text) / 3600


def test_a_member_that_moved_counts_where_it_belonged(moving, operator):
    answer = operator.get(f"{LAB}/sharing-degree/?{OCTOBER}&step=P1D&group=science")
    assert answer.status_code == 200, answer.json()
    document = answer.json()
    used = {row["group"]: hours(row["used"]["cpu"]) for row in document["groups"]}
    used |= {row["tenant"]: hours(row["used"]["cpu"]) for row in document["tenants"]}
    assert used == {"ml": 3 * 24 + 5 * 12, "ada": 5 * 12, "bob": 6 + 24}
    assert document["group"]["group"] == "science"
    assert hours(document["group"]["used"]["cpu"]) == 3 * 24 + 5 * 24 + 6 + 24
    assert document["group"]["sharing_degree"]["resources"]["cpu"] == pytest.approx(222 / 156)
    assert [hours(each["used"]["cpu"]) for each in document["group"]["series"]] == [78, 144]
    assert document["total"] == document["group"]["used"]
    inner = operator.get(f"{LAB}/sharing-degree/?{OCTOBER}&group=ml").json()
    assert [row["tenant"] for row in inner["tenants"]] == ["ada"]
    (row,) = [row for row in document["groups"] if row["group"] == "ml"]
    assert inner["group"]["used"] == row["used"]


def test_the_rows_of_a_group_are_its_children(moving, operator):
    answer = operator.get(f"{LAB}/sharing-degree/?{OCTOBER}&group=science&format=csv")
    rows = list(csv.DictReader(answer.content.decode().splitlines()))
    assert [(row["group"], row["tenant"]) for row in rows if row["resource"] == "cpu"] == [
        ("ml", ""), ("", "ada"), ("", "bob"),
    ]  # fmt: skip
    assert sum(hours(row["used"]) for row in rows) == 222


def test_lending_of_a_group_is_across_its_bounds(moving, operator):
    document = operator.get(f"{LAB}/lending/?{OCTOBER}&group=science").json()

    def flow(**ends):
        named = {"owner": None, "owner_group": None, "tenant": None, "tenant_group": None} | ends
        (found,) = [each for each in document["flows"] if {k: each[k] for k in named} == named]
        return hours(found["used"]["cpu"])

    # Bob's servers were outside the group until 18:00.
    assert flow(owner="bob", tenant_group="ml", owner_inside=False) == 3 * 18
    assert flow(owner="bob", tenant_group="ml", owner_inside=True) == 3 * 6 + 5 * 12
    assert flow(owner="bob", tenant="ada", owner_inside=True) == 5 * 12
    sums = document["group"]
    assert hours(sums["borrowed"]["cpu"]) == 3 * 18
    assert hours(sums["lent"]["cpu"]) == 0
    assert hours(sums["used"]["cpu"]) == 222
    assert hours(sums["balance"]["cpu"]) == -54
    outside = operator.get(f"{LAB}/lending/?{OCTOBER}&group=ml").json()
    assert hours(outside["group"]["borrowed"]["cpu"]) == 3 * 24 + 5 * 12
    assert hours(outside["total"]["cpu"]) == 3 * 24 + 5 * 12


def test_the_use_of_a_group_beside_the_capacity(moving, operator):
    document = operator.get(f"{LAB}/utilization/?{OCTOBER}&step=P1D&group=science").json()
    assert document["group"] == "science"
    assert hours(document["total"]["used"]["cpu"]) == 222
    whole = operator.get(f"{LAB}/utilization/?{OCTOBER}&step=P1D").json()
    assert document["total"]["capacity"] == whole["total"]["capacity"]
    assert [hours(row["used"]["cpu"]) for row in document["groups"]] == [132]
    assert [hours(row["used"]["cpu"]) for row in document["tenants"]] == [60, 30]


def test_what_moves_within_a_group_above_changes_nothing(moving, operator):
    path = f"{LAB}/sharing-degree/?{OCTOBER}&group="
    before = operator.get(f"{path}science").json()["group"]
    belonging(moving.ada, (moving.science, MONDAY - DAY))
    assert operator.get(f"{path}science").json()["group"] == before
    assert hours(operator.get(f"{path}ml").json()["group"]["used"]["cpu"]) == 0


def test_a_group_that_moved_takes_its_members_along(moving, operator):
    below(moving.ml, (moving.science, MONDAY - DAY), (None, MONDAY + 12 * HOUR))
    document = operator.get(f"{LAB}/sharing-degree/?{OCTOBER}&group=science").json()
    assert [hours(row["used"]["cpu"]) for row in document["groups"]] == [36]


def test_a_cycle_in_the_past_belongs_to_no_group_above(moving, operator):
    """A clock that was set back can leave one."""
    below(moving.science, (moving.ml, MONDAY - DAY), (None, MONDAY + DAY))
    document = operator.get(f"{LAB}/sharing-degree/?{OCTOBER}&step=P1D&group=science").json()
    assert hours(document["group"]["series"][1]["used"]["cpu"]) == 144


@pytest.mark.parametrize("report", REPORTS)
def test_a_group_and_a_tenant_are_not_asked_for_together(moving, operator, report):
    refused = operator.get(f"{LAB}/{report}/?group=science&tenant=ada")
    assert (refused.status_code, refused.json()["code"]) == (400, "report.one_of")
    unknown = operator.get(f"{LAB}/{report}/?group=none")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "group.not_found")


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("transparent", [False, True])
def test_a_tenant_has_no_report_of_a_group(moving, report, transparent):
    moving.lab.transparent = transparent
    moving.lab.save()
    answers = [
        moving.as_ada.get(f"{LAB}/{report}/?group={slug}") for slug in ("science", "ml", "none")
    ]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.json()["code"] for answer in answers}) == 1


@pytest.mark.parametrize("report", REPORTS)
def test_a_group_as_a_picture(moving, operator, report):
    drawn = operator.get(f"{LAB}/{report}/?{OCTOBER}&step=P1D&group=science&format=svg")
    assert drawn.status_code == 200
    assert ET.fromstring(drawn.content).tag.endswith("svg")


@pytest.mark.parametrize("report", REPORTS)
def test_a_retired_group_keeps_its_reports(moving, operator, report):
    belonging(moving.ada, (moving.ml, MONDAY - DAY), (moving.science, MONDAY + 36 * HOUR))
    retired = operator.delete("/api/v1/pools/lab/groups/ml/", If_Match='"v1"')
    assert retired.status_code == 204
    answer = operator.get(f"{LAB}/{report}/?{OCTOBER}&group=ml")
    assert answer.status_code == 200


def test_fairness_compares_members_and_takes_no_group(moving, operator):
    refused = operator.get(f"{LAB}/fairness/?group=science")
    assert (refused.status_code, refused.json()["code"]) == (400, "parameter.unknown")


@pytest.mark.parametrize("seed", range(5))
def test_sums_are_those_of_the_entries_one_by_one(world, operator, seed):
    """Random entries and moves, against each entry cut by hand at every move."""
    chance = random.Random(seed)
    groups = [factories.group(world.lab, slug) for slug in ("a", "b", "c")]
    instants = [MONDAY + HOUR * chance.randrange(48) + timedelta(microseconds=chance.randrange(10**6))
                for _ in range(6)]  # fmt: skip
    first = MONDAY - DAY
    below(groups[0], (None, first))
    below(groups[1], (groups[0], first), (None, min(instants)), (groups[0], max(instants)))
    below(groups[2], (groups[1], first))
    stays = {}
    for tenant in (world.ada, world.bob):
        starts = [first, *sorted(chance.sample(instants, 3))]
        stays[tenant] = [(chance.choice([None, *groups]), start) for start in starts]
        belonging(tenant, *stays[tenant])
    entries = []
    for tenant in stays:
        for _ in range(20):
            start = MONDAY + timedelta(microseconds=chance.randrange(46 * 3600 * 10**6))
            end = start + timedelta(microseconds=1 + chance.randrange(10**10))
            quantity = Decimal(chance.randrange(10**15)).scaleb(-12)
            entries.append((tenant, start, end, quantity))
    entries_append(
        [
            {
                "pool_id": world.lab.pk, "tenant_id": tenant.pk, "server_owner_id": None,
                "workload_id": None, "resource": "cpu", "unit": "core", "quantity": quantity,
                "start": start, "end": end, "kind": "usage", "corrects": None, "reason": "",
                "source": "test", "event_id": None, "run_id": None, "recorded_at": MONDAY,
            }
            for tenant, start, end, quantity in entries
        ]
    )  # fmt: skip
    entries_seal(now=MONDAY)
    totals_advance()
    until = MONDAY + 2 * DAY
    expected = Decimal(0)
    with localcontext(prec=100):
        for tenant, start, end, quantity in entries:
            terms = [*MembershipTerms.objects.filter(membership__tenant=tenant)]
            for each in terms:
                for piece in paths(each.group, each.start, each.end or until):
                    since, to = max(start, piece[0]), min(end, piece[1], until)
                    if since < to:
                        microseconds = (to - since) // timedelta(microseconds=1)
                        expected += quantity * Decimal(microseconds).scaleb(-6)
    for report in ("sharing-degree", "utilization"):
        document = operator.get(f"{LAB}/{report}/?{OCTOBER}&step=PT5H&group=a").json()
        whole = document["group" if report == "sharing-degree" else "total"]["used"]["cpu"]
        rows = [*document["groups"], *document["tenants"]]
        with localcontext(prec=100):
            assert Decimal(whole) == expected
            assert sum(Decimal(row["used"]["cpu"]) for row in rows) == expected
            assert (
                sum(Decimal(each["used"]["cpu"]) for row in rows for each in row["series"])
                == expected
            )


def paths(group, start, end):
    """The parts of an interval in which a group was `a` or below it."""
    if group is None:
        return
    if group.slug == "a":
        yield start, end
        return
    for terms in GroupTerms.objects.filter(group=group):
        since, until = max(start, terms.start), min(end, terms.end or end)
        if since < until:
            yield from paths(terms.parent, since, until)


def test_a_key_of_a_group_sees_time_within_the_group_only(moving, operator):
    """`ml` was below science for half a day; ada used 3 cores then."""
    below(moving.ml, (None, MONDAY - DAY), (moving.science, MONDAY + 12 * HOUR))
    belonging(moving.ada, (moving.ml, MONDAY - DAY))
    manager = factories.client("group", group=moving.science)
    for report, total in (("sharing-degree", "group"), ("lending", "group")):
        path = f"{LAB}/{report}/?{OCTOBER}&group="
        whole = operator.get(f"{path}ml").json()[total]["used"]["cpu"]
        assert hours(whole) == 3 * 24 + 5 * 24
        assert hours(manager.get(f"{path}ml").json()[total]["used"]["cpu"]) == 3 * 12 + 5 * 24
        own, seen = (caller.get(f"{path}science").json()["group"] for caller in (operator, manager))
        assert own == seen
    moving.lab.transparent = True
    moving.lab.save()
    used = manager.get(f"{LAB}/utilization/?{OCTOBER}&group=ml").json()["total"]["used"]["cpu"]
    assert hours(used) == 3 * 12 + 5 * 24


def test_a_key_of_a_group_knows_lenders_outside_by_pseudonyms(moving, operator):
    manager = factories.client("group", group=moving.ml)
    answer = manager.get(f"{LAB}/lending/?{OCTOBER}")
    assert b"bob" not in answer.content
    (flow,) = answer.json()["flows"]
    assert flow["owner"].startswith("member-")
    assert flow["tenant"] == "ada"
    (named,) = operator.get(f"{LAB}/lending/?{OCTOBER}&group=ml").json()["flows"]
    assert named == {**flow, "owner": "bob"}
