"""Guarantees, own servers and loans of trees from CSV."""

import io
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command

from allocator_service.pools.limit_forms import limits_text
from allocator_service.pools.models import Group, GroupTerms, MembershipTerms
from allocator_service.pools.selectors import group_terms_of, members_of
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.gangs import Gang
from tests import factories
from tests.integration.imports.test_groups import state

HEADER = "kind,slug,parent,limit,guarantee,own_servers,lend\n"
TREE = HEADER + (
    ',labs,,cpu=100,"cpu=8; room=cellar,attic; 2027-01-01T00:00Z\ncpu=40",yes,\n'
    ",genes,labs,,,no,\n"
    'member,u1,labs,,memory=4,,"cpu=2; room=attic\nmemory=1"\n'
    "member,u2,,,,inherit,none\n"
)
WRITTEN = {
    "labs": ("cpu=8; room=cellar,attic; 2027-01-01T00:00Z\ncpu=40", "yes", ""),
    "genes": ("", "no", ""),
    "u1": ("memory=4", "inherit", "cpu=2; room=attic\nmemory=1"),
    "u2": ("", "inherit", ""),
}


@pytest.fixture
def lab(pool, tenant):
    for slug in ("u1", "u2", "u3"):
        tenant(slug)
    return pool


def guaranteed(pool):
    """Guarantees, own servers and loans of groups and members, as the admin writes them."""
    groups = {terms.group.slug: terms for terms in group_terms_of(pool=pool)}
    members = {terms.membership.tenant.slug: terms for terms in members_of(pool=pool)}
    return {
        name: (
            limits_text(terms.guarantee),
            terms.own_servers,
            limits_text(getattr(terms, "lend", [])),
        )
        for name, terms in (groups | members).items()
    }


def test_they_are_shown_written_once_and_then_change_nothing(lab, command):
    before = state(lab)
    dry = command("import_groups", TREE, "--dry-run")
    assert (dry.code, state(lab)) == (0, before)
    assert command("import_groups", TREE).lines[-1].startswith("4 added")
    assert guaranteed(lab) == WRITTEN
    before = state(lab)
    assert command("import_groups", TREE).lines[-1].startswith("0 added, 0 changed, 4 unchanged")
    assert state(lab) == before


def test_another_order_of_values_is_the_same(lab, command):
    command("import_groups", TREE)
    turned = TREE.replace("room=cellar,attic", "room=attic,cellar")
    assert command("import_groups", turned).lines[-1].startswith("0 added, 0 changed")


def test_what_a_row_does_not_state_stays_and_none_removes(lab, command):
    command("import_groups", TREE)
    kept = "kind,slug,parent,weight,guarantee,own_servers,lend\n,labs,,2,,,\nmember,u1,genes,,,,\n"
    assert command("import_groups", kept).lines[-1].startswith("0 added, 2 changed")
    assert guaranteed(lab) == WRITTEN
    removed = HEADER + ",labs,,,none,inherit,\nmember,u1,genes,,none,no,cpu=1\n"
    assert command("import_groups", removed).lines[-1].startswith("0 added, 2 changed")
    changed = {"labs": ("", "inherit", ""), "u1": ("", "no", "cpu=1")}
    assert guaranteed(lab) == {**WRITTEN, **changed}


def exported(pool="lab"):
    out = io.StringIO()
    call_command("export_groups", pool, stdout=out)
    return out.getvalue()


def test_an_exported_tree_is_the_same_after_an_import(lab, command):
    """Instants have microseconds, as the API stores them, and names have commas and quotes."""
    command("import_groups", TREE)
    labs = GroupTerms.objects.get(group__slug="labs")
    labs.guarantee[0]["from"] = "2027-01-01T00:00:00.250000+00:00"
    labs.weight, labs.tier = Decimal("2.125"), -3
    labs.save()
    Group.objects.filter(slug="labs").update(name='Labs, "wet" and dry')
    before, stored, file = state(lab), guaranteed(lab), exported()
    assert file.splitlines()[:3] == [
        "kind,slug,name,parent,weight,tier,limit,guarantee,own_servers,lend",
        "group,genes,genes,labs,1,0,none,none,no,",
        'group,labs,"Labs, ""wet"" and dry",,2.125,-3,cpu=100,"cpu=8; room=cellar,attic;'
        " 2027-01-01T00:00:00.250000Z",
    ]
    ran = command("import_groups", file)
    assert ran.lines[-1].startswith("0 added, 0 changed, 4 unchanged"), ran.lines
    assert (state(lab), guaranteed(lab)) == (before, stored)
    tree = before[-1]
    for terms in (GroupTerms, MembershipTerms):
        terms.objects.update(guarantee=[], limit=[], own_servers="inherit", weight=9, tier=1)
    MembershipTerms.objects.update(lend=[], group=None)
    command("import_groups", file)
    assert (state(lab)[-1], guaranteed(lab), exported()) == (tree, stored, file)


def test_a_stored_date_out_of_range_is_exported_and_imported_again(lab, command):
    """An earlier release accepted it."""
    command("import_groups", TREE)
    rows = [{"where": {}, "amount": {"cpu": "100"}, "to": "9999-12-31T23:59:59+00:00"}]
    GroupTerms.objects.filter(group__slug="labs").update(limit=rows)
    file = exported()
    assert ", 0 changed, " in command("import_groups", file).lines[-1]
    raised = command("import_groups", file.replace("cpu=100;", "cpu=200;"))
    assert ", 1 changed, 3 unchanged, 0 refused" in raised.lines[-1]
    later = command("import_groups", file.replace("23:59:59Z", "23:59:58Z"))
    assert "limit.interval /limit/to: `to` must be between 2000 and 2200." in "".join(later.lines)


@pytest.mark.parametrize("value", ["a b", "a,b", "a; b"])
def test_a_value_that_no_line_expresses_is_not_exported(lab, command, value):
    command("import_groups", TREE)
    rows = [{"where": {"room": [value, "attic"]}, "amount": {"cpu": "1"}}]
    GroupTerms.objects.filter(group__slug="labs").update(guarantee=rows)
    with pytest.raises(CommandError, match='guarantee of "labs" selects servers by a value'):
        exported()


def test_an_unknown_pool_has_no_export(db):
    with pytest.raises(CommandError, match="pool"):
        exported("none")


REFUSED = [
    (",a,,,cpu,,\n", "guarantee.syntax /guarantee: Guarantee 1: expected name=value"),
    (",a,,,cpu=1; room,,\n", 'guarantee.syntax /guarantee: Guarantee 1: expected name=value, got "r'),
    (',a,,,"cpu=1\ncpu=x",,\n', "guarantee.syntax /guarantee: Guarantee 2: expected a number"),
    (",a,,,tpu=1,,\n", 'guarantee.unknown_resource /guarantee/amount/tpu: The pool has no resource'),
    (",a,,,; x=y,,\n", "guarantee.empty /guarantee/amount: A guarantee must name at least one"),
    (",a,,,cpu=1;;2027-01-02T00:00Z;2027-01-01T00:00Z,,\n", "guarantee.interval /guarantee/to"),
    (",a,,,cpu=1;;;2200-01-02T00:00Z,,\n", "guarantee.interval /guarantee/to: `to` must be between"),
    ("member,u1,,,,,cpu=1;;1999-01-01T00:00Z\n", "lend.interval /lend/from: `from` must be between"),
    (",a,,cpu=1;;9999-12-31T23:59-05:00,,,\n", "limit.syntax /limit: Limit 1: expected a time such"),
    (",a,,cpu=1;;0001-01-01T00:00+05:00,,,\n", "limit.syntax /limit: Limit 1: expected a time such"),
    (",a,,cpu=\uff11\uff12,,,\n", "limit.syntax /limit: Limit 1: expected a number"),
    (",a,,,,maybe,\n", 'field.choice /own_servers: Expected one of inherit, yes, no, got "maybe".'),
    (",a,,,,,cpu=1\n", "field.unknown /lend: A group lends no servers: leave the cell empty."),
    ("member,u1,,,,,cpu\n", "lend.syntax /lend: Loan 1: expected name=value"),
    ("member,u1,,,,,tpu=1\n", "lend.unknown_resource /lend/amount/tpu"),
    ("member,u1,,,,,; x=y\n", "lend.empty /lend/amount: A loan must name at least one resource."),
    (',a,,cpu=1,cpu=2,,\n', "limit.below_guarantees /limit: The limit of a is cpu=1. It must be at least"
     " cpu=2"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "error"), REFUSED)
def test_a_row_that_cannot_be_is_refused_with_its_line(lab, command, row, error):
    before = state(lab)
    for options in (["--dry-run"], []):
        ran = command("import_groups", HEADER + row, *options)
        assert ran.code == 1
        (refused,) = [line for line in ran.lines if line.startswith("line 2\t")]
        assert "\trefused\t" in refused
        assert error in refused, refused
        assert state(lab) == before


@pytest.mark.parametrize(
    "row", [",a,,,cpu=1,,", ",a,,,,yes,", "member,u1,,,cpu=1,,", "member,u1,,,,yes,"]
)
def test_a_pool_whose_tasks_start_together_takes_none(lab, command, row):
    lab.policy_mode = "indivisible"
    lab.save()
    factories.workload(lab, "mpi", 1, 0, Tenant.objects.get(slug="u3"), gang=Gang(at_least=2))
    before = state(lab)
    for options in (["--dry-run"], []):
        ran = command("import_groups", f"{HEADER}{row}\n", *options)
        assert ran.code != 0
        assert "`at_least` must be 1" in ran.error, ran
        assert state(lab) == before


def test_a_hundred_and_one_guarantees_of_a_node_are_refused(lab, command):
    cell = "\n".join(["cpu=1"] * 101)
    ran = command("import_groups", f'{HEADER},a,,,"{cell}",,\n', "--dry-run")
    assert "guarantee.too_many /guarantee: Expected at most 100 entries, got 101." in ran.lines[0]


def test_limits_are_compared_with_guarantees_of_other_rows_and_of_the_pool(lab, command):
    command("import_groups", HEADER + ",labs,,cpu=8,,,\nmember,u1,labs,,cpu=4,,\n")
    before = state(lab)
    more = HEADER + "member,u2,labs,,cpu=5,,\nmember,u3,labs,,,,\n"
    for options in (["--dry-run"], []):
        ran = command("import_groups", more, *options)
        assert (ran.code, state(lab)) == (1, before)
        assert ran.lines[0] == (
            "line 2\trefused\tu2/u2\tlimit.below_guarantees /guarantee: The limit of labs is cpu=8. It"
            " must be at least cpu=9, which is guaranteed under it on the same servers."
        )
    lower = HEADER + ",labs,,cpu=3,,,\n"
    refused = command("import_groups", lower, "--dry-run").lines[0]
    assert (
        "limit.below_guarantees /limit: The limit of labs is cpu=3. It must be at least cpu=4"
        in refused
    )
    assert (
        command("import_groups", lower, "--skip-refused").lines[-1].startswith("0 added, 0 changed")
    )
    assert state(lab) == before


def test_moves_below_a_limit_are_compared(lab, command):
    """Rows that state no amounts."""
    command("import_groups", HEADER + ",labs,,cpu=3,,,\n,team,,,,,\nmember,u1,team,,cpu=4,,\n")
    before = state(lab)
    for row in ("member,u1,labs,,,,\n", ",team,labs,,,,\n"):
        for options in (["--dry-run"], []):
            ran = command("import_groups", HEADER + row, *options)
            assert (ran.code, state(lab)) == (1, before)
            assert (
                "limit.below_guarantees /parent: The limit of labs is cpu=3. It must be at least cpu=4,"
                in ran.lines[0]
            )
    # With the amounts of the pool, as an export has them.
    again = HEADER + ",labs,,cpu=3,,,\nmember,u1,labs,,cpu=4,,\n"
    assert "line 3\trefused\tu1/u1\tlimit.below_guarantees /parent: " in "".join(
        command("import_groups", again, "--dry-run").lines
    )
    raised = HEADER + ",labs,,cpu=3,,,\nmember,u1,labs,,cpu=5,,\n"
    assert "line 3\trefused\tu1/u1\tlimit.below_guarantees /guarantee: " in "".join(
        command("import_groups", raised, "--dry-run").lines
    )


def test_only_the_amounts_after_all_rows_are_compared(lab, command):
    """The limit of the group falls below what the member had guaranteed before."""
    command("import_groups", HEADER + ",labs,,cpu=8,,,\nmember,u1,labs,,cpu=8,,\n")
    lower = HEADER + ",labs,,cpu=3,,,\nmember,u1,labs,,cpu=3,,\n"
    ran = command("import_groups", lower)
    assert ran.lines[-1].startswith("0 added, 2 changed"), (ran.lines, ran.error)
    assert guaranteed(lab)["u1"][0] == "cpu=3"


def test_later_guarantees_count_against_a_limit_while_both_hold(lab, command):
    apart = HEADER + ",a,,cpu=1;;;2030-01-01T00:00Z,cpu=2;;2030-01-01T00:00Z,,\n"
    assert command("import_groups", apart, "--dry-run").code == 0
    together = apart.replace("2030-01-01T00:00Z,cpu=2", "2030-01-02T00:00Z,cpu=2")
    refused = command("import_groups", together, "--dry-run").lines[0]
    assert (
        "limit.below_guarantees /limit: From 1 January 2030, 00:00 UTC on, the limit of a"
        in refused
    )


def test_a_limit_bounds_guarantees_on_some_of_its_servers(lab, command):
    rows = HEADER + ",a,,cpu=1,,,\nmember,u1,a,,cpu=2; rack=1,,\n"
    for options in (["--dry-run"], []):
        assert "limit.below_guarantees" in command("import_groups", rows, *options).lines[0]


def test_what_a_pool_cannot_have_together_refuses_the_file(lab, command):
    before = state(lab)
    racks = "".join(f",g{n},,,cpu=1; rack={n},,\n" for n in range(11))
    many = "".join(f',g{n},,"{chr(10).join(["cpu=9"] * 91)}",,,\n' for n in range(11))
    for rows, error in (
        (racks, "for 11 different selections of servers; at most 10 are allowed."),
        (
            many,
            "The pool would have 1,001 limits, guarantees, loans and budgets that stop; at most 1,000"
            " are allowed.",
        ),
    ):
        for options in (["--dry-run"], []):
            ran = command("import_groups", HEADER + rows, *options)
            assert (ran.code, error in ran.error, state(lab)) == (2, True, before)
    assert command("import_groups", HEADER + racks.partition(",g10,")[0]).code == 0


def test_at_most_64_members_lend(lab, command, tenant):
    rows = "".join(f"member,l{n},,,,,cpu=1\n" for n in range(65))
    ran = command("import_groups", HEADER + rows, "--dry-run", "--register-tenants")
    assert (ran.code, "65 members of the pool would limit what they lend" in ran.error) == (2, True)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (",a,,,cpu=1,,\n", "does not keep guarantees"),
        (",a,,,,yes,\n", "does not keep guarantees"),
        ("member,u1,,,,,cpu=1\n", "does not keep loans"),
    ],
)
def test_a_policy_that_keeps_no_guarantees_refuses_the_file(lab, command, row, error):
    lab.policy_name = "h-mrf"
    lab.save()
    ran = command("import_groups", HEADER + row, "--dry-run")
    assert (ran.code, error in ran.error) == (2, True), ran.error
    assert command("import_groups", HEADER + ",a,,,,no,\n").code == 0


def test_one_pool_selects_no_servers(lab, command):
    lab.policy_name = "drf"
    lab.policy_places = False
    lab.save()
    for row in (",a,,,cpu=1; room=a,,\n", "member,u1,,,,,cpu=1\n"):
        assert "policy.no_placement" in command("import_groups", HEADER + row, "--dry-run").lines[0]
    assert command("import_groups", HEADER + ",a,,,cpu=1,,\n").code == 0
