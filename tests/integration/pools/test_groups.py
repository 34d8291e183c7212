"""Groups of a pool: every change of the tree is dated, counted, and done whole or refused whole."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import IntegrityError, connection, transaction

from allocator_service.allocation.policies import policy_choose
from allocator_service.core.constraints import domain_error_for
from allocator_service.core.errors import Conflict, Missing, Stale, Unacceptable
from allocator_service.core.models import AuditEntry
from allocator_service.pools.group_services import (
    GroupDraft,
    GroupSettings,
    group_retire,
    group_update,
    groups_create,
)
from allocator_service.pools.member_services import member_end, member_put
from allocator_service.pools.models import Group, GroupTerms, MembershipTerms, Pool
from allocator_service.pools.selectors import group_history, group_terms_of, groups_of, members_of
from allocator_service.pools.services import pool_update
from tests.integration.conftest import NOON, settings

pytestmark = pytest.mark.django_db
LATER = NOON + timedelta(hours=1)


def create(pool, *rows, now=NOON):
    """Groups of `slug` or `(slug, parent)`; each row is named by its index."""
    pairs = [(row, None) if isinstance(row, str) else row for row in rows]
    drafts = [
        GroupDraft(slug, GroupSettings(slug.title(), parent), pointer=f"/{index}")
        for index, (slug, parent) in enumerate(pairs)
    ]
    return groups_create(pool=pool, drafts=drafts, now=now)


def moved(group, parent, *, version=None, now=LATER, weight=Decimal(1), tier=0):
    terms = GroupSettings(group.name, parent, weight, tier)
    return group_update(group=group, settings=terms, version=version, now=now)


def tree(pool):
    return dict(group_terms_of(pool=pool).values_list("group__slug", "parent__slug"))


def generation(pool):
    return Pool.objects.get(pk=pool.pk).generation


def refused(kind, action):
    """The codes and pointers of what `action` is refused with, having changed nothing."""
    tables = (Group, GroupTerms, MembershipTerms, AuditEntry, Pool)
    before = [list(table.objects.order_by("pk").values()) for table in tables]
    with pytest.raises(kind) as error, transaction.atomic():
        action()
    assert [list(table.objects.order_by("pk").values()) for table in tables] == before
    return [(each.code, each.pointer) for each in error.value.errors] or error.value.code


def test_groups_are_created_at_once_in_any_order_and_count_as_one_change(pool):
    before = generation(pool)
    create(pool, ("vision", "ml"), "ml", ("speech", "ml"))
    assert tree(pool) == {"ml": None, "vision": "ml", "speech": "ml"}
    assert generation(pool) == before + 1
    entry = AuditEntry.objects.get(action="group.create")
    assert (entry.pool, entry.after) == ("lab", {"groups": 3, "first": "vision", "last": "speech"})


def test_a_change_is_dated_and_earlier_terms_are_kept(pool):
    (group, _) = create(pool, "ml", "science")
    before = generation(pool)
    changed = moved(group, "science", version=1, weight=Decimal(3), tier=-1)
    assert (changed.version, generation(pool)) == (2, before + 1)
    history = group_history(pool=pool, slug="ml", tenant=None)
    rows = [(row.parent and row.parent.slug, row.weight, row.tier, row.start, row.end)
            for row in history]  # fmt: skip
    assert rows == [(None, 1, 0, NOON, LATER), ("science", 3, -1, LATER, None)]
    entry = AuditEntry.objects.get(action="group.update")
    assert entry.after == {"parent": "science", "weight": "3", "tier": -1}
    assert entry.before == {"parent": None, "weight": "1.000000000000", "tier": 0}
    with pytest.raises(Stale):
        moved(group, None, version=1)


def test_two_changes_at_one_instant_leave_the_last(pool):
    (group,) = create(pool, "ml")
    moved(group, None, now=NOON, weight=Decimal(2))
    assert GroupTerms.objects.get().weight == 2


def test_a_slug_is_that_of_one_present_group_and_free_once_it_is_retired(pool):
    (group,) = create(pool, "ml")
    taken = refused(Conflict, lambda: create(pool, "new", "ml", "twice", "twice"))
    assert taken == [("group.exists", "/1/slug"), ("group.exists", "/3/slug")]
    group_retire(group=group, version=1, now=LATER)
    create(pool, "ml", now=LATER)
    history = group_history(pool=pool, slug="ml", tenant=None)
    assert [(row.start, row.end) for row in history] == [(NOON, LATER), (LATER, None)]
    with pytest.raises(Missing):
        moved(group, None)


def test_a_group_with_members_or_groups_is_not_retired(pool, tenant):
    ml, vision = create(pool, "ml", ("vision", "ml"))
    put = {"pool": pool, "tenant": tenant("ada"), "weight": Decimal(1), "best_effort": False}
    member_put(**put, group="vision", version=None, now=NOON)
    for group in (ml, vision):
        code = refused(Conflict, lambda each=group: group_retire(group=each, version=1, now=LATER))
        assert code == "group.not_empty"
    member_put(**put, version=1, now=LATER)
    group_retire(group=vision, version=1, now=LATER)
    group_retire(group=ml, version=1, now=LATER)
    assert not groups_of(pool=pool).exists()
    assert GroupTerms.objects.filter(end=LATER).count() == 2


def test_a_former_member_does_not_keep_a_group(pool, tenant):
    (ml,) = create(pool, "ml")
    put = {"pool": pool, "tenant": tenant("ada"), "weight": Decimal(1), "best_effort": False}
    member_put(**put, group="ml", tier=2, version=None, now=NOON)
    member_end(pool=pool, tenant=tenant("ada"), version=1, now=LATER)
    group_retire(group=ml, version=1, now=LATER)
    member_put(**put, version=None, now=LATER + timedelta(hours=1))
    assert [(row.group, row.tier) for row in members_of(pool=pool)] == [(None, 0)]


def test_a_cycle_is_refused_and_named(pool):
    a, b, c = create(pool, "a", ("b", "a"), ("c", "b"))
    assert refused(Unacceptable, lambda: moved(a, "c")) == [("group.cycle", "/parent")]
    assert refused(Unacceptable, lambda: moved(b, "b")) == [("group.cycle", "/parent")]
    among = refused(Unacceptable, lambda: create(pool, ("x", "y"), ("y", "x"), ("z", "c")))
    assert among == [("group.cycle", "/0/parent"), ("group.cycle", "/1/parent")]
    moved(c, None)
    moved(a, "c")
    assert tree(pool) == {"a": "c", "b": "a", "c": None}


def test_a_tree_has_eight_levels_and_no_ninth(pool):
    rows = [("g1", None), *((f"g{n}", f"g{n - 1}") for n in range(2, 9))]
    create(pool, *rows)
    ninth = refused(Unacceptable, lambda: create(pool, ("g9", "g8")))
    assert ninth == [("group.too_deep", "/0/parent")]
    (top,) = create(pool, "top")
    first = Group.objects.get(slug="g1")
    assert refused(Unacceptable, lambda: moved(first, "top")) == [("group.too_deep", "/parent")]
    moved(Group.objects.get(slug="g2"), "top")
    assert tree(pool)["g2"] == "top"
    assert top.slug == "top"


def test_unknown_parents_are_named_also_those_of_another_pool(pool):
    from allocator_service.pools.services import pool_create

    other = pool_create(slug="other", settings=settings(), now=NOON)
    create(other, "theirs")
    create(pool, "ours")
    unknown = refused(Unacceptable, lambda: create(pool, ("a", "theirs"), ("b", "ours")))
    assert unknown == [("group.unknown", "/0/parent")]
    ours = Group.objects.get(slug="ours")
    assert refused(Unacceptable, lambda: moved(ours, "theirs")) == [("group.unknown", "/parent")]


@pytest.mark.parametrize(
    ("weight", "tier", "expected"),
    [
        ("0", 0, ("weight.not_positive", "/weight")),
        ("-1", 0, ("weight.not_positive", "/weight")),
        ("1e12", 0, ("weight.not_positive", "/weight")),
        ("1", 1_000_001, ("tier.out_of_range", "/tier")),
        ("1", -1_000_001, ("tier.out_of_range", "/tier")),
    ],
)
def test_weights_and_tiers_out_of_range_are_refused(pool, tenant, weight, tier, expected):
    (group,) = create(pool, "ml")
    terms = {"weight": Decimal(weight), "tier": tier}
    assert refused(Unacceptable, lambda: moved(group, None, **terms)) == [expected]
    draft = GroupDraft("new", GroupSettings("New", None, **terms))
    new = refused(Unacceptable, lambda: groups_create(pool=pool, drafts=[draft], now=NOON))
    assert new == [expected]
    member = {"pool": pool, "tenant": tenant("ada"), "best_effort": False, "version": None}
    put = refused(Unacceptable, lambda: member_put(**member, **terms, group="ml", now=NOON))
    assert put == [expected]


def test_ten_thousand_groups_are_taken_and_one_more_is_not(pool):
    many = [("top", None), *((f"g{n}", "top") for n in range(9_999))]
    assert refused(Unacceptable, lambda: create(pool, *many, "more")) == "group.too_many"
    create(pool, *many)
    assert refused(Unacceptable, lambda: create(pool, "more")) == "group.too_many"
    assert len(tree(pool)) == 10_000


class TestPoliciesWithoutGroups:
    def test_a_pool_with_groups_keeps_to_policies_that_take_them(self, pool):
        (group,) = create(pool, "ml")

        def change(name, options=None):
            choice = policy_choose(name, None, options)
            pool_update(pool=pool, settings=settings(policy=choice), version=None, now=LATER)

        weighted = {"resource_weights": {"ada": {"cpu": 2}}}
        for arguments in [("asset",), ("mrfs",), ("tda",), ("drf", weighted)]:
            codes = refused(Unacceptable, lambda each=arguments: change(*each))
            assert codes == [("policy.no_groups", "/policy/name")]
        change("lt-drf")
        group_retire(group=group, version=1, now=LATER)
        change("asset")

    def test_its_tiers_too(self, pool, tenant):
        put = {"pool": pool, "tenant": tenant("ada"), "weight": Decimal(1), "best_effort": False}
        member_put(**put, tier=1, version=None, now=NOON)
        asset = settings(policy=policy_choose("asset", None, {}))
        codes = refused(
            Unacceptable, lambda: pool_update(pool=pool, settings=asset, version=None, now=LATER)
        )
        assert codes == [("policy.no_groups", "/policy/name")]
        member_put(**put, version=1, now=LATER)
        pool_update(pool=pool, settings=asset, version=None, now=LATER)

    def test_a_pool_under_another_policy_gets_no_groups(self, pool, tenant):
        asset = settings(policy=policy_choose("asset", None, {}))
        pool_update(pool=pool, settings=asset, version=None, now=NOON)
        assert refused(Unacceptable, lambda: create(pool, "ml")) == [("policy.no_groups", "")]
        put = {"pool": pool, "tenant": tenant("ada"), "weight": Decimal(1), "best_effort": False,
               "version": None, "now": NOON}  # fmt: skip
        tier = refused(Unacceptable, lambda: member_put(**put, tier=1))
        assert tier == [("policy.no_groups", "/tier")]
        group = refused(Unacceptable, lambda: member_put(**put, group="ml"))
        assert group == [("policy.no_groups", "/group")]


def test_a_member_is_moved_by_new_terms(pool, tenant):
    create(pool, "ml", "bio")
    put = {"pool": pool, "tenant": tenant("ada"), "weight": Decimal(1), "best_effort": False}
    member_put(**put, group="ml", version=None, now=NOON)
    unknown = refused(Unacceptable, lambda: member_put(**put, group="none", version=1, now=LATER))
    assert unknown == [("group.unknown", "/group")]
    member_put(**put, group="bio", tier=3, version=1, now=LATER)
    rows = MembershipTerms.objects.values_list("group__slug", "tier", "end")
    assert list(rows) == [("ml", 0, LATER), ("bio", 3, None)]
    entry = AuditEntry.objects.get(action="member.update")
    assert (entry.before, entry.after) == ({"group": "ml", "tier": 0}, {"group": "bio", "tier": 3})


@pytest.mark.parametrize(
    ("statement", "constraint", "code"),
    [
        ("UPDATE pool_group_terms SET weight = 0", "group_weight_positive", "weight.not_positive"),
        ("UPDATE pool_group_terms SET tier = 1000001", "group_tier_in_range", "tier.out_of_range"),
        ("UPDATE pool_group_terms SET parent_id = group_id", "group_not_its_own_parent",
         "group.cycle"),
        ("UPDATE pool_membership_terms SET tier = -1000001", "membership_tier_in_range",
         "tier.out_of_range"),
        ("UPDATE pool_group SET slug = 'No'", "group_slug_wellformed", "slug.syntax"),
        ("INSERT INTO pool_group (pool_id, slug, name, version, created_at)"
         " SELECT pool_id, slug, name, 1, created_at FROM pool_group", "group_slug_unique",
         "group.exists"),
        ("INSERT INTO pool_group_terms (group_id, weight, tier, start)"
         " SELECT id, 1, 0, now() FROM pool_group", "group_terms_one_present", None),
        ("INSERT INTO pool_group_terms (group_id, weight, tier, start, \"end\")"
         " SELECT id, 1, 0, created_at, created_at + interval '1 day' FROM pool_group",
         "group_terms_disjoint", None),
    ],
)  # fmt: skip
def test_the_database_itself_refuses_what_breaks_an_invariant(fig2, statement, constraint, code):
    create(fig2, "ml")
    with pytest.raises(IntegrityError) as refusal, connection.cursor() as cursor:
        cursor.execute(statement)
    assert refusal.value.__cause__.diag.constraint_name == constraint
    error = domain_error_for(constraint)
    assert (error.code if error else None) == code
