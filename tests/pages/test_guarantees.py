"""Guarantees, own servers and loans on the pages of tenants and groups."""

from types import SimpleNamespace

import pytest
from django.db import transaction

from allocator_service.core.clock import utc_now
from allocator_service.core.quantities import Resource
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.models import GroupTerms, MembershipTerms
from allocator_service.pools.recompute import pool_changed
from allocator_service.workloads.services import workload_withdraw
from tests import factories
from tests.pages.browser import browser_of
from tests.pages.people import person_of_group
from tests.pages.test_amounts import by_key_and_as_person
from tests.pages.test_pages import words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("people_sign_in")]

PAGE = "/my/pools/shared/"
H100 = {"gpu": ["h100"]}


@pytest.fixture
def shared(db):
    """Two servers of 8 GPUs, one from each tenant; a in head > ml, b beside them."""
    pool = factories.pool("shared", resources=[Resource("gpu", "GPU"), Resource("cpu", "core")])
    head = factories.group(pool, "head")
    factories.group(pool, "ml", "head")
    found = SimpleNamespace(pool=pool, head=head)
    for slug, group in (("a", "ml"), ("b", None)):
        tenant = factories.tenant(slug)
        factories.member(pool, tenant, group)
        factories.server(pool, f"of-{slug}", 8, 8, tenant, labels={"gpu": "h100"})
        setattr(found, slug, tenant)
        setattr(found, f"work_of_{slug}", factories.workload(pool, slug, 1, 1, tenant))
    return found


def set_group(slug, **fields):
    GroupTerms.objects.filter(group__slug=slug, end=None).update(**fields)


def set_member(slug, **fields):
    MembershipTerms.objects.filter(membership__tenant__slug=slug, end=None).update(**fields)


def gpus(amount, where=None):
    return [{"where": where or {}, "amount": {"gpu": str(amount)}}]


def decided(shared):
    with transaction.atomic():
        pool_changed(pool_lock(shared.pool), now=utc_now())
    factories.decision(shared.pool)


def shown(tenant):
    text = words(browser_of(factories.client("tenant", tenant=tenant)).text(PAGE))
    return text.partition("Your limits and guarantees")[2].partition("Your workloads")[0]


@pytest.fixture
def collide(shared):
    """12 GPUs are guaranteed to ml and 8 to b, of 16: four fifths of each can be had."""
    set_group("ml", guarantee=gpus(12, H100))
    set_member("b", guarantee=gpus(8))
    factories.decision(shared.pool)
    return shared


def test_a_tenant_sees_what_it_has_of_its_guarantee_and_why_not_all(collide):
    expected = (
        "at least 8 GPUs: 6.4 GPUs allocated now, 80 %, not met: all gpu on its servers is in use"
    )
    assert f"you {expected} always" in shown(collide.b)


@pytest.mark.parametrize("transparent", [False, True])
def test_what_a_group_has_of_its_guarantee_is_for_transparent_pools(collide, transparent):
    collide.pool.transparent = transparent
    collide.pool.save()
    text = "Ml at least 12 GPUs on gpu=h100"
    if transparent:
        text += ": 9.6 GPUs allocated now, 80 %, not met: all gpu on its servers is in use"
    assert f"{text} always" in shown(collide.a)
    group = words(browser_of(factories.client("tenant", collide.a)).text(f"{PAGE}groups/ml/"))
    assert f"{text.removeprefix('Ml ')} always" in group
    assert "not met" not in shown(collide.a) or transparent


@by_key_and_as_person
def test_a_group_sees_its_guarantees_and_only_operators_set_them(collide, signed_in_by):
    visitor = signed_in_by(collide.head)
    line = (
        "at least 12 GPUs on gpu=h100: 9.6 GPUs allocated now, 80 %, not met: all gpu on its servers"
        " is in use"
    )
    assert line in words(visitor.text("/my/group/")).partition("Below it")[2]
    node = visitor.text("/my/groups/ml/")
    assert f"{line} always" in words(node)
    assert 'href="/my/groups/ml/limits/"' in node
    assert "/guarantees/" not in node
    assert visitor.get("/my/groups/ml/guarantees/").status_code == 404


def test_a_guarantee_is_met_if_less_is_demanded(shared):
    set_member("b", guarantee=gpus(8))
    shared.work_of_b.tasks = 3
    shared.work_of_b.save()
    decided(shared)
    assert (
        "at least 8 GPUs: 3 GPUs allocated now, 37.5 %, met: the workloads below can use no more of it"
        in shown(shared.b)
    )
    shared.work_of_b.tasks = None
    shared.work_of_b.save()
    decided(shared)
    assert "at least 8 GPUs: 8 GPUs allocated now, 100 %, met always" in shown(shared.b)


def test_a_guarantee_that_no_server_matches_is_not_met(shared):
    set_member("b", guarantee=gpus(8, {"gpu": ["b200"]}))
    factories.decision(shared.pool)
    assert (
        "at least 8 GPUs on gpu=b200: 0 GPUs allocated now, 0 %, not met: no active server matches"
        in shown(shared.b)
    )


def test_a_guarantee_of_which_one_workload_lacks_its_part(shared):
    """b is guaranteed 12 GPUs. Its first workload, for servers with H100 alone, cannot have as many."""
    factories.server(shared.pool, "new", 16, 16, shared.b, labels={"gpu": "new"})
    set_member("a", guarantee=gpus(8, H100))
    set_member("b", guarantee=gpus(12))
    workload_withdraw(workload=shared.work_of_b, version=1, now=utc_now())
    first = {"server_selector": {"gpu": ["h100"]}, "priority": 1}
    factories.workload(shared.pool, "old", 1, 1, shared.b, **first)
    factories.workload(shared.pool, "any", 1, 1, shared.b)
    decided(shared)
    lacks = "a workload has 80 % of its part: all cpu on its servers is in use"
    assert f"16 GPUs allocated now, 133.3 %, {lacks}" in shown(shared.b)


@pytest.mark.parametrize("of", ["pool", "member"])
def test_own_servers_are_a_guarantee_without_an_amount(shared, of):
    assert shown(shared.b) == ""
    if of == "pool":
        shared.pool.own_servers = True
        shared.pool.save()
    else:
        set_member("b", own_servers="yes")
    factories.decision(shared.pool)
    line = "what workloads get alone on the servers that their tenant contributed: met always"
    assert f"you {line}" in shown(shared.b)
    set_member("b", limit=gpus(4))
    decided(shared)
    reason = "not met: the limit of a member is reached"
    assert line.replace("met always", f"{reason} always") in shown(shared.b)
    assert (line in words(person_of_group(shared.head).text("/my/members/a/"))) == (of == "pool")


def test_a_loan_shows_what_others_use(shared):
    set_member("a", lend=gpus(3))
    shared.work_of_a.tasks = 1
    shared.work_of_a.save()
    factories.decision(shared.pool)
    line = "at most 3 GPUs for others: 3 GPUs in use by others, 100 %"
    assert f"you {line} always" in shown(shared.a)
    assert f"Its loans Amount and present allocation When {line}" in words(
        person_of_group(shared.head).text("/my/members/a/")
    )
    assert line not in shown(shared.b)
