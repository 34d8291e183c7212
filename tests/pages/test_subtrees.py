"""Pages of a group of a pool: for its keys and for people who are bound to it."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine

from allocator_service.billing.budgets import BudgetDraft, BudgetSettings, budget_create
from allocator_service.core.clock import utc_now
from allocator_service.core.errors import Conflict, Unacceptable
from allocator_service.core.models import AuditEntry
from allocator_service.ledger.intake.entries import entries_append
from allocator_service.ledger.intake.sealing import entries_seal_all
from allocator_service.pools.budgets import Then
from allocator_service.pools.group_services import group_retire
from allocator_service.pools.models import Group, GroupTerms, MembershipTerms
from allocator_service.tenants.models import Access, GroupGrant
from allocator_service.tenants.people import (
    group_grant_create,
    group_grant_withdraw,
    pool_groups_of,
)
from tests import factories
from tests.api.v1.billing.conftest import plan, published
from tests.pages.browser import TOKEN, browser_of
from tests.pages.people import person_in, person_of_group
from tests.pages.test_pages import words
from tests.statements import pdf_text

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("people_sign_in")]
NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def tree(world):
    """outer > science > ml with ada, outer > zoology with bob; `science` in `other` has eve."""
    lab = world.lab
    world.outer = factories.group(lab, "outertext")
    world.science = factories.group(lab, "science", "outertext")
    world.ml = factories.group(lab, "ml", "science", weight=2)
    world.zoology = factories.group(lab, "zootext", "outertext")
    factories.member(lab, world.ada, "ml")
    factories.member(lab, world.bob, "zootext")
    factories.group(world.other, "science")
    factories.member(world.other, world.eve, "science")
    world.run, world.other_run = factories.decision(lab), factories.decision(world.other)
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


def weight_of(slug):
    return GroupTerms.objects.get(group__slug=slug, group__pool__slug="lab", end=None).weight


@by_key_and_as_person
def test_the_pages_show_the_subtree(tree, signed_in_by):
    visitor = signed_in_by(tree.science)
    assert visitor.get("/my/")["Location"] == "/my/group/"
    home = visitor.text("/my/group/")
    assert "Generation" in home
    assert "Allocated" in home
    assert '<a href="/my/groups/ml/">Ml</a>' in home
    inner = visitor.text("/my/groups/ml/")
    assert '<a href="/my/members/ada/">Ada</a>' in inner
    assert '<a href="/my/groups/science/">Science</a>' in inner
    member = visitor.text("/my/members/ada/")
    assert "analysis" in member or "ada" in member
    assert "runs" in member
    assert visitor.text("/my/groups/science/").replace("/my/groups/science/", "") == home.replace(
        "/my/groups/science/", ""
    )


@by_key_and_as_person
@pytest.mark.parametrize("transparent", [False, True])
def test_what_is_beside_the_group_answers_as_what_does_not_exist(tree, transparent, signed_in_by):
    tree.lab.transparent = transparent
    tree.lab.save()
    visitor = signed_in_by(tree.science)
    for template, foreign in (
        ("/my/groups/{}/", "zootext"), ("/my/groups/{}/", "outertext"),
        ("/my/groups/{}/statements/2026-11/", "zootext"), ("/my/members/{}/", "bob"),
        ("/my/members/{}/", "eve"),
    ):  # fmt: skip
        answers = [
            visitor.get(template.format(name)) for name in (foreign, "none", "%00", "Odd%20Name")
        ]
        assert {each.status_code for each in answers} == {404}
        assert len({each.content for each in answers}) == 1, template


@by_key_and_as_person
@pytest.mark.parametrize("transparent", [False, True])
def test_no_page_names_what_is_beside_or_above_the_group(tree, transparent, signed_in_by):
    tree.lab.transparent = transparent
    tree.lab.save()
    for access in Access.values:
        visitor = signed_in_by(tree.science, access)
        for path in ("group/", "groups/ml/", "members/ada/", "tenant/"):
            text = visitor.text(f"/my/{path}")
            for hidden in ("bob", "zootext", "outertext", "Outertext", "eve"):
                assert not re.search(rf"\b{hidden}\b", text), (path, hidden)


@by_key_and_as_person
def test_what_happens_elsewhere_changes_no_byte(tree, signed_in_by):
    visitor = signed_in_by(tree.science)
    pages = ["/my/group/", "/my/groups/ml/", "/my/members/ada/"]
    moment = datetime.now(UTC)
    with time_machine.travel(moment, tick=False):
        before = [visitor.text(path) for path in pages]
    factories.server(tree.other, "more", 9, 9, tree.eve)
    factories.workload(tree.other, "more", 1, 1, tree.eve)
    factories.decision(tree.other)
    factories.group(tree.other, "ml")
    with time_machine.travel(moment, tick=False):
        assert [visitor.text(path) for path in pages] == before


@by_key_and_as_person
def test_a_manager_changes_what_is_below_and_never_its_own(tree, signed_in_by):
    visitor = signed_in_by(tree.science)
    asked = {"kind": "group", "slug": "ml", "weight": "5.5", "tier": "1", "version": "1"}
    changed = visitor.post("/my/terms/", "/my/group/", **asked)
    assert (changed.status_code, changed["Location"]) == (302, "/my/groups/science/")
    assert weight_of("ml") == pytest.approx(5.5)
    entry = AuditEntry.objects.filter(action="group.update").latest("pk")
    assert entry.actor.startswith(("key ", "user Person+"))
    version = str(
        MembershipTerms.objects.get(membership__tenant=tree.ada, end=None).membership.version
    )
    member = {"kind": "member", "slug": "ada", "weight": "3", "tier": "2", "version": version}
    assert visitor.post("/my/terms/", "/my/groups/ml/", **member).status_code == 302
    terms = MembershipTerms.objects.get(membership__tenant=tree.ada, end=None)
    assert (terms.weight, terms.tier, terms.group.slug) == (3, 2, "ml")
    refused = {
        (403, "science"): {"slug": "science"},
        (404, "zootext"): {"slug": "zootext"},
        (404, "outertext"): {"slug": "outertext"},
        (404, "bob"): {"slug": "bob", "kind": "member"},
        (412, "ml"): {},  # the version is no longer that one
        (422, "weight"): {"version": "2", "weight": "0"},
        (422, "number"): {"version": "2", "weight": "much"},
        (422, "kind"): {"kind": "pool"},
    }
    for (status, _), fields in refused.items():
        answer = visitor.post("/my/terms/", "/my/group/", **{**asked, **fields})
        assert answer.status_code == status, fields
    assert weight_of("science") == weight_of("zootext") == 1
    assert weight_of("ml") == pytest.approx(5.5)


@by_key_and_as_person
def test_a_reader_changes_nothing(tree, signed_in_by):
    manager, reader = signed_in_by(tree.science), signed_in_by(tree.science, "read")
    assert 'name="weight"' in manager.text("/my/group/")
    assert 'name="weight"' not in reader.text("/my/group/")
    asked = {"kind": "group", "slug": "ml", "weight": "5", "tier": "0", "version": "1"}
    assert reader.post("/my/terms/", "/my/group/", **asked).status_code == 403
    assert weight_of("ml") == 2


def test_a_person_of_several_bindings_chooses(tree):
    now = datetime.now(UTC)
    bound = {"pool": "lab", "now": now}
    group_grant_create(group="mixed", tenant=tree.ada, now=now)
    group_grant_create(group="mixed", pool_group=tree.ml.pk, access="read", **bound)
    group_grant_create(group="others", pool_group=tree.science.pk, **bound)
    person = person_in("mixed")
    assert person.get("/my/group/")["Location"].startswith("/my/tenant/")
    choice = person.text("/my/tenant/")
    assert "Ml, group of Lab" in choice
    for field, value, place in (
        ("group", tree.ml.pk, "/my/group/"), ("tenant", "ada", "/my/pools/lab/"),
        ("group", tree.science.pk, "/my/groups/ml/"),
    ):  # fmt: skip
        chosen = person.post("/my/tenant/", "/my/tenant/", **{field: value, "next": place})
        assert chosen["Location"] == place
        assert person.get(place).status_code == 200
        assert "Change" in person.text(place)
    assert person.post("/my/tenant/", "/my/tenant/", group=tree.zoology.pk).status_code == 404
    assert person.post("/my/tenant/", "/my/tenant/", group="x").status_code == 404


def test_what_manages_counts_of_two_grants(tree):
    for name, access in (("readers", "read"), ("managers", "manage"), ("more", "read")):
        group_grant_create(group=name, pool="lab", pool_group=tree.ml.pk, access=access, now=NOW)
    assert pool_groups_of(["readers", "more"]) == {tree.ml.pk: Access.READ}
    assert pool_groups_of(["readers", "managers", "more"]) == {tree.ml.pk: Access.MANAGE}


def test_a_grant_names_a_tenant_or_a_group(tree):
    group = {"pool": "lab", "pool_group": tree.ml.pk}
    for wrong in (
        {}, {"pool": "lab"}, {"pool_group": tree.ml.pk}, {"tenant": tree.ada, **group},
        {"tenant": tree.ada, "access": "read"},
    ):  # fmt: skip
        with pytest.raises(Unacceptable) as refused:
            group_grant_create(group="people", now=NOW, **wrong)
        assert refused.value.code == "grant.target"
    group_grant_create(group="people", now=NOW, **group)
    with pytest.raises(Conflict) as refused:
        group_grant_create(group="people", now=NOW, access="read", **group)
    assert refused.value.code == "grant.exists"
    assert GroupGrant.objects.count() == 1


def test_a_binding_ends_with_its_grant_and_with_its_group(tree):
    person = person_of_group(tree.ml)
    assert person.get("/my/group/").status_code == 200
    grant = GroupGrant.objects.get(pool_group=tree.ml.pk)
    group_grant_withdraw(grant=grant, now=datetime.now(UTC))
    assert "ended=person.no_longer" in person.get("/my/group/")["Location"]
    again = person_of_group(tree.ml)
    key = browser_of(factories.client("group", group=tree.ml))
    factories.member(tree.lab, tree.ada, "science")
    group_retire(group=Group.objects.get(pk=tree.ml.pk), version=None, now=datetime.now(UTC))
    assert "ended=person.no_longer" in again.get("/my/group/")["Location"]
    assert "ended=auth.revoked" in key.get("/my/group/")["Location"]
    entry = AuditEntry.objects.get(action="group.retire")
    assert (entry.after["keys_revoked"], entry.after["grants_withdrawn"]) == (1, 1)
    assert AuditEntry.objects.filter(action="grant.withdraw").count() == 2


def test_children_are_shown_by_pages(tree):
    for number in range(105):
        factories.group(tree.lab, f"project-{number:03}", "science")
    visitor = person_of_group(tree.science)
    first = visitor.text("/my/group/")
    assert "project-098" in first
    assert "project-099" not in first
    second = visitor.text("/my/group/?from=101")
    assert "project-099" in second
    assert 'href="?from=1"' in second
    assert visitor.get("/my/group/?from=x").status_code == 200


def test_a_groups_statement_leads_back_and_to_its_file(tree, operator):
    month = f"{datetime.now(UTC):%Y-%m}"
    published(operator, plan(f"{month}-01T00:00:00Z"))
    visitor = person_of_group(tree.science)
    path = f"/my/groups/science/statements/{month}/"
    assert f'href="{path}"' in visitor.text("/my/groups/science/")
    page = visitor.text(path)
    for link in ("/my/groups/science/", "?format=pdf"):
        assert f'href="{link}"' in page
    paper = visitor.get(f"{path}?format=pdf")
    text = pdf_text(paper.content)
    for name in ("Group science", "Pool lab", "counts as a whole for its group at"):
        assert name in text
    for shown in (page, text):
        assert "tree_at" not in shown  # a field, which JSON has
    assert paper["Content-Disposition"].endswith(f'"statement-lab-{month}-science.pdf"')
    assert visitor.get(path.replace("science", "zootext") + "?format=pdf").status_code == 404


def test_a_closed_pool_leaves_the_statements(tree):
    visitor = person_of_group(tree.science)
    tree.lab.retired_at = datetime.now(UTC)
    tree.lab.save()
    assert "was closed" in visitor.text("/my/group/")
    assert visitor.get("/my/members/ada/").status_code == 404
    assert TOKEN.search(visitor.get("/my/group/").content.decode())


@by_key_and_as_person
def test_a_groups_page_has_its_balances_and_a_tenants_page_what_is_exhausted(tree, signed_in_by):
    """Of cpu hours: 1 of 1 of the group ml, and 1 of 5 of its member. The group above has none."""
    for node, amount, then in ((tree.ml, 1, Then.STOP), (tree.ada, 5, Then.LAST)):
        settings = BudgetSettings(Decimal(amount), [100], then=then)
        draft = BudgetDraft(node, "cpu", settings)
        budget_create(pool=tree.lab, draft=draft, now=utc_now())
    start = utc_now()  # what ada used before it was in the group counts elsewhere
    row = {
        "pool_id": tree.lab.pk, "tenant_id": tree.ada.pk, "server_owner_id": None, "workload_id": None,
        "resource": "cpu", "unit": "core", "quantity": Decimal(60), "start": start,
        "end": start + timedelta(minutes=1),
        "kind": "usage", "corrects": None, "reason": "", "source": "test", "event_id": None,
        "run_id": None, "recorded_at": utc_now(),
    }  # fmt: skip
    entries_append([row])
    entries_seal_all(now=utc_now())
    factories.decision(tree.lab)
    head = signed_in_by(tree.science)
    page = head.text("/my/groups/ml/")
    assert "Budget of cpu hours" in page
    assert "Until the period ends, no cpu is allocated here" in page
    assert "exceeded" in page or ">0.00 hours<" in page
    assert "Budget of cpu" not in head.text("/my/groups/science/")
    member = head.text("/my/members/ada/")
    assert "Once it is exhausted, everything here is served after everybody else" in member
    # The decision has a limit of 0, and people read about the budget behind it.
    spent = "The budget of the group ml, cpu hours, is spent until 1 "
    assert spent in words(member)
    assert "stopped at the budget of group ml, which is spent until 1 " in words(member)
    own = browser_of(tree.as_ada).text("/my/pools/lab/")
    assert spent in words(own)
    assert "The next period; or a larger budget, by who manages it." in words(own)
    assert "The limit of the group ml is reached." not in words(member + own)
    work = tree.lab.workloads.get(tenant=tree.ada)
    why = words(browser_of(tree.as_ada).text(f"/my/pools/lab/why/?workload={work.pk}"))
    assert "stopped at the budget of group ml, which is spent until 1 " in why
    assert "What may help beyond that: The next period; or a larger budget" in why
    assert "The budget of group ml, 1 hours of cpu, is exhausted: it gets no cpu until" in own
    assert "Budget of cpu hours" in own
