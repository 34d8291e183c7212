"""Limits on the pages of tenants and groups, and the form of a group's manager."""

from datetime import timedelta

import pytest

from allocator_service.core.clock import utc_now
from allocator_service.core.models import AuditEntry
from allocator_service.pools.models import GroupTerms, MembershipTerms
from tests import factories
from tests.pages.browser import browser_of
from tests.pages.people import person_of_group
from tests.pages.test_pages import LAB, words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("people_sign_in")]

MEMBER = "/my/members/ada/limits/"
GROUP = "/my/groups/ml/limits/"


@pytest.fixture
def tree(world):
    """outer > science > ml with ada, outer > zoology with bob; outer and ml have limits."""
    lab = world.lab
    world.outer = factories.group(lab, "outertext")
    world.science = factories.group(lab, "science", "outertext")
    world.ml = factories.group(lab, "ml", "science")
    factories.group(lab, "zootext", "outertext")
    factories.member(lab, world.ada, "ml")
    factories.member(lab, world.bob, "zootext")
    factories.limit(lab, "outertext", {"cpu": 11})
    factories.limit(lab, "ml", {"cpu": 1})
    later = utc_now() + timedelta(days=40)
    factories.limit(lab, "ml", {"memory": 7}, {"room": ["cellar", "attic"]}, start=later)
    world.run = factories.decision(lab)
    return world


by_key_and_as_person = pytest.mark.parametrize(
    "signed_in_by",
    [
        lambda group, access="manage": browser_of(
            factories.client("group", group=group, access=access)
        ),
        person_of_group,
    ],
    ids=["by key", "as person"],
)


def stored(slug="ml"):
    return GroupTerms.objects.get(group__slug=slug, end=None).limit


def added(visitor, path, **fields):
    page = visitor.text(path)
    version = page.partition('name="version" value="')[2].partition('"')[0]
    empty = {"amount_0": "", "amount_1": "", "servers": "", "start": "", "end": ""}
    return visitor.post(path, path, **{**empty, "version": version, **fields})


@pytest.mark.parametrize("transparent", [False, True])
def test_a_tenant_sees_its_limits_and_those_above_with_what_is_allocated(tree, transparent):
    tree.lab.transparent = transparent
    tree.lab.save()
    factories.limit(tree.lab, "science", {"cpu": 5}, end=utc_now() + timedelta(days=2))
    text = words(browser_of(tree.as_ada).text(LAB))
    limits = text.partition("Your limits and guarantees")[2].partition("Your workloads")[0]
    shown = "at most 1 core"
    shown += ": 1 core allocated now, 100 % always" if transparent else " always"
    assert f"Ml {shown}" in limits
    assert "Ml at most 7 GiB memory on room=cellar or attic from" in limits
    # The decision does not know this one yet.
    assert "Science at most 5 cores until " in limits
    group = words(browser_of(tree.as_ada).text(f"{LAB}groups/ml/"))
    assert shown in group.partition("Its limits")[2]


def test_a_member_has_limits_of_its_own_in_a_pool_without_groups(world):
    terms = MembershipTerms.objects.get(membership__tenant=world.ada, membership__pool=world.lab)
    terms.limit = [{"where": {}, "amount": {"cpu": "1.5"}}]
    terms.save()
    factories.decision(world.lab)
    text = words(browser_of(world.as_ada).text(LAB))
    assert "you at most 1.5 cores: 1.5 cores allocated now, 100 % always" in text
    assert "The limit that was set for you is reached." in text
    assert "Your limits" not in words(browser_of(world.as_bob).text(LAB))


@by_key_and_as_person
def test_a_group_page_shows_what_each_child_has_wants_and_may_have(tree, signed_in_by):
    visitor = signed_in_by(tree.science)
    text = words(visitor.text("/my/group/"))
    assert "Its limits It has none of its own." in text
    below = text.partition("Below it")[2]
    assert (
        "Name Kind Allocated Wants Limits and guarantees Weight and tier Ml ml group 1 core,"
        in below
    )
    assert "at most 1 core: 1 core allocated now, 100 %" in below
    assert "at most 7 GiB memory on room=cellar or attic from" in below
    own = words(signed_in_by(tree.ml).text("/my/group/"))
    assert "at most 1 core: 1 core allocated now, 100 %" in own.partition("Its limits")[2]
    member = words(visitor.text("/my/members/ada/"))
    assert "The limit of the group ml is reached." in member


@by_key_and_as_person
def test_a_manager_adds_and_removes_limits_below_its_group(tree, signed_in_by):
    visitor = signed_in_by(tree.science)
    tree.lab.timezone = "Europe/Berlin"
    tree.lab.save()
    dated = {"start": "2027-01-01T00:00", "end": "2027-04-01T00:00"}
    answer = added(visitor, GROUP, amount_0="2.5", servers="room=cellar\nroom=attic", **dated)
    assert (answer.status_code, answer["Location"]) == (302, GROUP)
    assert stored()[2] == {
        "where": {"room": ["cellar", "attic"]},
        "amount": {"cpu": "2.5"},
        "from": "2026-12-31T23:00:00+00:00",
        "to": "2027-03-31T22:00:00+00:00",
    }
    entry = AuditEntry.objects.filter(action="group.update").latest("pk")
    assert entry.actor.startswith(("key ", "user Person+"))
    assert "1 January 2027, 00:00 CET" in words(visitor.text(GROUP))
    assert added(visitor, GROUP, remove="0").status_code == 302
    assert [limit["amount"] for limit in stored()] == [{"memory": "7"}, {"cpu": "2.5"}]
    assert added(visitor, MEMBER, amount_1="4").status_code == 302
    terms = MembershipTerms.objects.get(membership__tenant=tree.ada, end=None)
    assert (terms.limit, terms.group.slug) == ([{"where": {}, "amount": {"memory": "4"}}], "ml")


@by_key_and_as_person
def test_no_manager_changes_its_own_limits_or_those_beside(tree, signed_in_by):
    before = {slug: stored(slug) for slug in ("science", "outertext", "zootext")}
    visitor = signed_in_by(tree.science)
    own = "/my/groups/science/limits/"
    assert 'name="amount_0"' not in visitor.text(own)
    fields = {
        "amount_0": "9",
        "amount_1": "",
        "servers": "",
        "start": "",
        "end": "",
        "version": "1",
    }
    assert visitor.post(own, own, **fields).status_code == 403
    for path in ("groups/outertext/", "groups/zootext/", "members/bob/", "groups/none/"):
        assert visitor.get(f"/my/{path}limits/").status_code == 404
        assert visitor.post(f"/my/{path}limits/", own, **fields).status_code == 404
    assert {slug: stored(slug) for slug in before} == before
    reader = signed_in_by(tree.science, "read")
    assert 'name="amount_0"' not in reader.text(GROUP)
    assert reader.post(GROUP, GROUP, **fields).status_code == 403
    assert "Change its limits" not in reader.text("/my/groups/ml/")


@by_key_and_as_person
@pytest.mark.parametrize("transparent", [False, True])
def test_no_page_names_the_group_above_or_its_limits(tree, transparent, signed_in_by):
    tree.lab.transparent = transparent
    tree.lab.save()
    factories.limit(tree.lab, "outertext", {"cpu": 0.5})
    factories.decision(tree.lab)
    visitor = signed_in_by(tree.science)
    for path in (
        "group/",
        "groups/ml/",
        "groups/ml/limits/",
        "members/ada/",
        "members/ada/limits/",
    ):
        text = visitor.text(f"/my/{path}")
        for hidden in ("bob", "zootext", "outertext", "Outertext", "0.5 core"):
            assert hidden not in words(text), (path, hidden)
    member = words(visitor.text("/my/members/ada/"))
    assert "The limit of a group above yours is reached." in member
    assert "stopped at the limit of a group above." in member


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "Enter an amount of at least one resource."),
        ({"amount_0": "much"}, "much"),
        ({"amount_0": "-1"}, "-1"),
        ({"amount_0": "1", "servers": "cellar"}, "cellar: expected label=value."),
        ({"amount_0": "1", "start": "yesterday"}, "Enter a valid date/time."),
        (
            {"amount_0": "1", "start": "2027-02-01T00:00", "end": "2027-01-01T00:00"},
            "`to` must be later than `from`.",
        ),
    ],
)
def test_what_is_wrong_is_named_at_its_field(tree, fields, sentence):
    visitor = person_of_group(tree.science)
    answer = added(visitor, GROUP, **fields)
    assert answer.status_code == 422
    assert sentence in words(answer.content.decode())
    assert "Nothing was changed." in words(answer.content.decode())
    assert len(stored()) == 2


ENDS = {"from": "0001-01-01T00:00:00+00:00", "to": "9999-12-31T23:59:59+00:00"}


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Pacific/Kiritimati"])
def test_a_date_that_no_clock_of_the_pool_has_is_shown(tree, zone):
    """An earlier release accepted it."""
    tree.lab.timezone = zone
    tree.lab.save()
    rows = [
        {"where": {}, "amount": {"cpu": "1"}, "to": ENDS["to"]},
        {"where": {}, "amount": {"cpu": "0.5"}, "from": ENDS["to"]},
        {"where": {}, "amount": {"cpu": "2"}, **ENDS},
        {"where": {}, "amount": {"cpu": "3"}, "to": ENDS["from"]},
    ]
    least = [
        {"where": {}, "amount": {"cpu": "0.01"}, **dates} for dates in (ENDS, {"to": ENDS["to"]})
    ]
    GroupTerms.objects.filter(group__pool=tree.lab, end=None).update(limit=rows, guarantee=least)
    MembershipTerms.objects.filter(membership__pool=tree.lab).update(limit=rows, lend=rows[:1])
    tree.lab.workloads.update(limit=rows)
    factories.decision(tree.lab)
    manager, ada = person_of_group(tree.science), browser_of(tree.as_ada)
    for visitor, paths in (
        (manager, ("/my/group/", "/my/groups/ml/", GROUP, "/my/members/ada/", MEMBER)),
        (ada, (LAB, f"{LAB}groups/ml/", f"{LAB}workloads/")),
    ):
        for path in paths:
            assert visitor.get(path).status_code == 200, path
    assert "December 9999" in words(manager.text(GROUP))
    assert added(manager, GROUP, remove="0").status_code == 302
    assert added(manager, GROUP, amount_0="4").status_code == 302


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("field", ["start", "end"])
@pytest.mark.parametrize("at", ["0001-01-01T00:00", "1999-06-01T00:00", "9999-12-31T23:59"])
def test_a_date_out_of_the_range_of_budgets_is_refused_at_its_field(tree, zone, field, at):
    tree.lab.timezone = zone
    tree.lab.save()
    answer = added(person_of_group(tree.science), GROUP, amount_0="1", **{field: at})
    assert answer.status_code == 422
    name = {"start": "from", "end": "to"}[field]
    assert f"`{name}` must be between 2000 and 2200." in words(answer.content.decode())
    assert len(stored()) == 2


def test_limits_are_changed_at_the_version_that_was_read(tree):
    visitor = person_of_group(tree.science)
    for fields in ({"amount_0": "1"}, {"remove": "0"}):
        assert added(visitor, GROUP, version="1", **fields).status_code == 412
    assert added(visitor, GROUP, remove="x").status_code == 422
    assert len(stored()) == 2
