"""Trees of groups and members from CSV and from Slurm."""

import random
import time
from itertools import pairwise

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from allocator_service.core.models import AuditEntry
from allocator_service.pools.limit_forms import limits_text
from allocator_service.pools.models import GroupTerms, MembershipTerms
from allocator_service.pools.selectors import group_terms_of, members_of
from allocator_service.tenants.models import Tenant
from tests import factories

CSV = "kind,slug,name,parent,weight,tier\n"
TREE = CSV + (
    "group,labs,Laboratories,science,3,\n"  # before its parent
    "group,science,,,,\n"
    ",genes,,science,0.5,1\n"
    "member,u1,,labs,2,\n"
    "member,u2,,labs,,\n"
)
SACCTMGR = """\
Cluster|Account|User|Partition|Share|ParentName
lab|root|||1|
lab| root|root||1|
lab| science|||10|root
lab|  Gene_Lab|||100|science
lab|   genomics|||1|Gene_Lab
lab|    genomics|ann||1|
lab|  labs|||300|science
lab|   vision|||2|labs
lab|    vision|ann||parent|
lab|    vision|bob|gpu|parent|
lab|   speech|||1|labs
lab| alone|||7|root
"""


@pytest.fixture
def lab(pool, tenant):
    for slug in ("u1", "u2", "u3"):
        tenant(slug)
    return pool


def tree(pool):
    """Parent, weight and tier of each group and member."""
    groups = {
        terms.group.slug: (terms.parent and terms.parent.slug, float(terms.weight), terms.tier)
        for terms in group_terms_of(pool=pool)
    }
    return groups | {
        f"member {terms.membership.tenant.slug}": (
            terms.group and terms.group.slug,
            float(terms.weight),
            terms.tier,
        )
        for terms in members_of(pool=pool)
    }


def state(pool):
    pool.refresh_from_db()
    return pool.generation, AuditEntry.objects.count(), Tenant.objects.count(), tree(pool)


WRITTEN = {
    "science": (None, 1, 0),
    "labs": ("science", 3, 0),
    "genes": ("science", 0.5, 1),
    "member u1": ("labs", 2, 0),
    "member u2": ("labs", 1, 0),
}


def test_a_tree_is_shown_written_once_and_then_changes_nothing(lab, command):
    before = state(lab)
    dry = command("import_groups", TREE, "--dry-run")
    assert (dry.code, dry.lines[:5]) == (
        0,
        [
            "line 2\tadded\tlabs",
            "line 3\tadded\tscience",
            "line 4\tadded\tgenes",
            "line 5\tadded\tu1/u1",
            "line 6\tadded\tu2/u2",
        ],
    )
    assert state(lab) == before
    first = command("import_groups", TREE)
    assert first.lines[-1].startswith("5 added, 0 changed, 0 unchanged, 0 refused")
    assert tree(lab) == WRITTEN
    names = dict(group_terms_of(pool=lab).values_list("group__slug", "group__name"))
    assert names == {"labs": "Laboratories", "science": "science", "genes": "genes"}
    before = state(lab)
    second = command("import_groups", TREE)
    assert second.lines[-1].startswith("0 added, 0 changed, 5 unchanged, 0 refused")
    assert state(lab) == before


def test_what_a_row_does_not_state_stays(lab, command):
    command("import_groups", TREE)
    MembershipTerms.objects.filter(membership__tenant__slug="u1").update(best_effort=True)
    ran = command("import_groups", "slug,parent,kind\nlabs,,group\nu1,genes,member\n")
    assert ran.lines[-1].startswith("0 added, 2 changed, 0 unchanged")
    assert tree(lab) == {**WRITTEN, "labs": (None, 3, 0), "member u1": ("genes", 2, 0)}
    assert members_of(pool=lab).get(membership__tenant__slug="u1").best_effort


def test_only_the_tree_after_all_moves_must_be_one(lab, command):
    chain = CSV + "".join(f",g{n},,{f'g{n - 1}' if n else ''},,\n" for n in range(8))
    command("import_groups", chain)
    turned = CSV + "".join(f",g{n},,{f'g{n + 1}' if n < 7 else ''},,\n" for n in range(8))
    assert command("import_groups", turned).lines[-1].startswith("0 added, 8 changed")
    assert tree(lab)["g0"] == ("g1", 1, 0)


REFUSED = [
    (",a,,nowhere,,\n", 2, "group.unknown /parent: Neither the pool nor the file has a group"),
    (",a,,,NaN,\n", 2, "field.type /weight: Expected a number such as 2 or 0.5"),
    (",a,,,1e3,\n", 2, "field.type /weight: Expected a number such as 2 or 0.5"),
    (",a,,,Infinity,\n", 2, "field.type /weight: Expected a number such as 2 or 0.5"),
    (",a,,,0,\n", 2, "weight.not_positive /weight: The weight must be greater than 0"),
    (",a,,,-1,\n", 2, "weight.not_positive /weight: The weight must be greater than 0"),
    (",a,,,1000000000000,\n", 2, "weight.not_positive /weight: The weight must be greater than 0"),
    (",a,,,,1.5\n", 2, "field.type /tier: Expected a whole number"),
    (",a,,,,9999999\n", 2, "field.range /tier: Expected a whole number from"),
    (",Physik-Ü,,,,\n", 2, 'slug.syntax /slug: "Physik-Ü" is not a slug'),
    (",a,,Ü,,\n", 2, 'slug.syntax /parent: "Ü" is not a slug'),
    (",a,x\u202ey,,,\n", 2, "field.text /name: Expected one line"),
    ("team,a,,,,\n", 2, 'field.choice /kind: Expected one of group, member, got "team".'),
    ("member,u1,Ada,,,\n", 2, "field.unknown /name: A member has the name of its tenant"),
    ("member,u9,,,,\n", 2, 'tenant.unknown: No tenant has the slug "u9".'),
    ("member,u1,,nowhere,,\n", 2, "group.unknown /parent: Neither the pool nor the file"),
    (",a,,,,\n,a,,,,\n", 3, 'row.duplicate /name: "a" of the same owner is at line 2 already.'),
    (",a,,b,,\n,b,,a,,\n", 3, 'group.cycle /parent: The parents of "b" lead back to it'),
    (",a,,a,,\n", 2, 'group.cycle /parent: The parents of "a" lead back to it'),
    (",a,,,0,\n,b,,a,,\n", 3, 'group.unknown /parent: The group "a" is refused at line 2.'),
    (",a,,x,,\n,b,,a,,\nmember,u1,,b,,\n", 4, 'The group "b" is refused at line 3.'),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "line", "error"), REFUSED)
def test_a_row_that_cannot_be_is_refused_with_its_line(lab, command, rows, line, error):
    before = state(lab)
    for options in (["--dry-run"], []):
        ran = command("import_groups", CSV + rows, *options)
        assert ran.code == 1
        (told,) = [text for text in ran.lines if text.startswith(f"line {line}\t")]
        assert "\trefused\t" in told
        assert error in told
        assert state(lab) == before


def test_a_ninth_level_is_refused_at_the_row_that_makes_it(lab, command):
    chain = CSV + "".join(f",g{n},,{f'g{n - 1}' if n else ''},,\n" for n in range(9))
    ran = command("import_groups", chain)
    (refused,) = [line for line in ran.lines if "\trefused\t" in line]
    assert refused.startswith("line 10\trefused\tg8\tgroup.too_deep /parent: ")
    command("import_groups", chain, "--skip-refused")
    assert len(tree(lab)) == 8
    pushed = command("import_groups", CSV + ",top,,,,\n,g0,,top,,\n")
    (refused,) = [line for line in pushed.lines if "\trefused\t" in line]
    assert refused.startswith('line 3\trefused\tg0\tgroup.too_deep /parent: "g7" would be 9 levels')


def test_the_others_are_written_when_refused_rows_are_skipped(lab, command):
    ran = command(
        "import_groups", TREE + ",a,,nowhere,,\n,b,,a,,\nmember,u3,,b,,\n", "--skip-refused"
    )
    assert ran.lines[-1].startswith("5 added, 0 changed, 0 unchanged, 3 refused")
    assert tree(lab) == WRITTEN


def test_a_policy_that_takes_no_groups_refuses_the_file(lab, command):
    lab.policy_name = "ceei"
    lab.save()
    ran = command("import_groups", TREE)
    assert (ran.code, "ceei does not decide by groups" in ran.error) == (2, True)


def test_tenants_are_registered_on_demand(lab, command):
    rows = CSV + "member,new,,,,\n"
    ran = command("import_groups", rows, "--dry-run", "--register-tenants")
    assert "tenants would be registered: new" in ran.lines
    command("import_groups", rows, "--register-tenants")
    assert tree(lab) == {"member new": (None, 1, 0)}


def test_members_are_written_by_as_many_statements_however_many_they_are(lab, command):
    """One by one the import of 10,000 members took 198 s under the pool's lock, and takes 5 s."""

    def statements(rows):
        with CaptureQueriesContext(connection) as captured:
            command("import_groups", CSV + rows, "--register-tenants")
        return len(captured)

    def members(prefix, count, weight):
        return "".join(f"member,{prefix}{n},,a,{weight},\n" for n in range(count))

    command("import_groups", CSV + "group,a,,,,\n")
    statements(members("warm", 3, 1))
    assert statements(members("few", 3, 1)) == statements(members("many", 60, 1))
    before = state(lab)[0]
    lines = AuditEntry.objects.filter(action="member.update").count()
    assert statements(members("few", 3, 2)) == statements(members("many", 60, 2))
    assert state(lab)[0] == before + 2  # a change of the pool by each import
    assert AuditEntry.objects.filter(action="member.update").count() == lines + 63
    changed = AuditEntry.objects.filter(action="member.update").latest("pk")
    assert (changed.before, changed.after) == ({"weight": "1.000000000000"}, {"weight": "2"})
    members_now = members_of(pool=lab).filter(membership__tenant__slug__startswith="many")
    assert {(each.weight, each.membership.version) for each in members_now} == {(2, 2)}
    assert MembershipTerms.objects.exclude(end=None).count() == 63


def test_accounts_of_slurm_are_groups_and_their_leaves_members(lab, command):
    options = ("--format", "sacctmgr", "--register-tenants")
    dry = command("import_groups", SACCTMGR, *options, "--dry-run")
    assert dry.lines[:4] == [
        "line 2\tskipped\troot\tThe root account, which is the pool itself.",
        "line 3\tskipped\troot\tThe root account, which is the pool itself.",
        "line 4\tadded\tscience",
        "line 5\tadded\tgene-lab",
    ]
    ran = command("import_groups", SACCTMGR, *options)
    assert ran.lines[-1].startswith("7 added, 0 changed, 0 unchanged, 0 refused, 5 skipped")
    assert tree(lab) == {
        "science": (None, 10, 0),
        "gene-lab": ("science", 100, 0),
        "labs": ("science", 300, 0),
        "member genomics": ("gene-lab", 1, 0),
        "member vision": ("labs", 2, 0),
        "member speech": ("labs", 1, 0),
        "member alone": (None, 7, 0),
    }
    again = command("import_groups", SACCTMGR, *options)
    assert again.lines[-1].startswith("0 added, 0 changed, 7 unchanged")
    # Without the column the weights stay, whatever an agent has written into Slurm since.
    moved = "\n".join("|".join(line.split("|")[:4]) for line in SACCTMGR.splitlines())
    assert command("import_groups", moved, *options).lines[-1].startswith("0 added, 0 changed, 7")


def test_users_can_be_the_members(lab, command):
    options = ("--format", "sacctmgr", "--register-tenants", "--tenant-label", "User")
    ran = command("import_groups", SACCTMGR, *options)
    assert next(line for line in ran.lines if "refused" in line) == (
        'line 10\trefused\tann/ann\trow.duplicate /name: "ann" of the same owner is at line 7 already.'
    )
    alone = SACCTMGR.replace("lab|    genomics|ann||1|\n", "").replace("bob|gpu|", "bob||")
    command("import_groups", alone, *options)
    found = tree(lab)
    assert (found["vision"], found["member ann"], found["member bob"]) == (
        ("labs", 2, 0), ("vision", 1, 0), ("vision", 1, 0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        ("", 2, "Line 1 lacks the columns Account, User"),
        ("Cluster|User\n", 2, "Line 1 lacks the columns Account"),
        ("Cluster|Account|User\na|root|\nb|root|\n", 2, "the trees of 2 clusters"),
        ("Account|User|Share\nroot||1\n a|\n", 1, "row.cells: Expected 3 cells"),
        ("Account|User|Share\nroot||1\n a||parent\n b||2\n", 1, "Fairshare=parent is no weight"),
        ("Account|User|Share\nroot||1\n a||0\n", 1, "weight.not_positive"),
        ("Account|User|Share\nroot||1\n a||nan\n", 1, "field.type /Share"),
        ("Account|User|Share\nroot||1\n ü||1\n", 1, 'slug.syntax /Account: "ü" is not a slug'),
        ("Account|User|Share\nroot||1\n A_b||1\n a.b||1\n", 1, "row.duplicate"),
    ],
)
def test_what_sacctmgr_does_not_print_is_refused(lab, command, content, code, message):
    before = state(lab)
    ran = command("import_groups", content, "--format", "sacctmgr", "--register-tenants")
    assert (ran.code, message in "\n".join([*ran.lines, ran.error])) == (code, True)
    assert state(lab) == before


def seconds_of(command, rows, pool):
    began = time.monotonic()
    ran = command("import_groups", CSV + "".join(rows), pool=pool)
    assert ran.lines[-1].startswith(f"{len(rows)} added")
    return time.monotonic() - began


def test_ten_thousand_groups_are_imported_and_one_more_is_refused(lab, command):
    draw = random.Random(7)
    sizes = [10, 1428, *[1427] * 6]
    levels = [[f"g{depth}-{n}" for n in range(size)] for depth, size in enumerate(sizes)]
    rows = [f",{slug},,,,\n" for slug in levels[0]]
    for above, here in pairwise(levels):
        rows += [f",{slug},,{draw.choice(above)},{draw.randint(1, 9)},\n" for slug in here]
    few = sum(sizes[:2])
    few_rows = rows[:few]
    first = seconds_of(command, few_rows, "lab")
    draw.shuffle(rows)
    assert len(rows) == 10_000
    began = time.monotonic()
    assert (
        command("import_groups", CSV + "".join(rows)).lines[-1].startswith(f"{10_000 - few} added")
    )
    assert command("import_groups", CSV + "".join(rows)).lines[-1].startswith("0 added, 0 changed")
    heavier = [f",{slug},,,2,\n" for slug in levels[0]]
    assert command("import_groups", CSV + "".join(heavier)).lines[-1].startswith("0 added, 10")
    took = time.monotonic() - began
    # The machine may be busier now than at the first rows.
    factories.pool("other")
    first = max(first, seconds_of(command, few_rows, "other"))
    # All rows twice take 14 times as long as these few once if each row takes as long as any other.
    assert took < 14 * 3 * first
    ran = command("import_groups", CSV + ",more,,,,\n")
    assert (ran.code, "a pool has at most 10,000" in ran.error) == (2, True)


def test_a_cycle_of_ten_thousand_is_refused_in_linear_time(lab, command):
    rows = [f",g{n},,g{(n + 1) % 9999},,\n" for n in range(9999)]
    began = time.monotonic()
    ran = command("import_groups", CSV + "".join(rows))
    assert (ran.code, sum("group.cycle" in line for line in ran.lines)) == (1, 9999)
    chain = [f",g{n},,{f'g{n - 1}' if n else 'nowhere'},,\n" for n in range(9999)]
    assert command("import_groups", CSV + "".join(chain)).code == 1
    assert time.monotonic() - began < 20


LIMITED = CSV.replace("tier", "tier,limit")


def limits_of(pool):
    """Limits of groups and members, as the admin writes them."""
    groups = {terms.group.slug: terms.limit for terms in group_terms_of(pool=pool)}
    members = {terms.membership.tenant.slug: terms.limit for terms in members_of(pool=pool)}
    return {name: limits_text(limit) for name, limit in (groups | members).items() if limit}


def test_limits_are_shown_written_once_and_then_change_nothing(lab, command):
    file = LIMITED + (
        ',labs,,,,,"cpu=8; room=cellar,attic; 2027-01-01T00:00Z\ncpu=100"\n'
        ",genes,,,,,\n"
        "member,u1,,labs,,,memory=4\n"
    )
    before = state(lab)
    dry = command("import_groups", file, "--dry-run")
    assert (dry.code, state(lab)) == (0, before)
    assert command("import_groups", file).lines[-1].startswith("3 added")
    written = {
        "labs": "cpu=8; room=cellar,attic; 2027-01-01T00:00Z\ncpu=100", "u1": "memory=4",
    }  # fmt: skip
    assert limits_of(lab) == written
    GroupTerms.objects.filter(group__slug="labs").update(
        limit=[
            {"amount": {"cpu": "8"}, "where": {"room": ["attic", "cellar"]},
             "from": "2027-01-01T00:00:00+00:00"},
            {"amount": {"cpu": "100"}, "where": {}},
        ]
    )  # fmt: skip
    before = state(lab)
    assert command("import_groups", file).lines[-1].startswith("0 added, 0 changed, 3 unchanged")
    assert state(lab) == before
    kept = LIMITED + ",labs,,,2,,\nmember,u1,,genes,,,\n"
    assert command("import_groups", kept).lines[-1].startswith("0 added, 2 changed")
    assert set(limits_of(lab)) == {"labs", "u1"}
    removed = LIMITED + ",labs,,,,,none\nmember,u1,,genes,,,cpu=1\n"
    assert command("import_groups", removed).lines[-1].startswith("0 added, 2 changed")
    assert limits_of(lab) == {"u1": "cpu=1"}


@pytest.mark.parametrize(
    ("cell", "error"),
    [
        ("cpu", 'limit.syntax /limit: Limit 1: expected name=value, got "cpu".'),
        ("cpu=1; room", 'limit.syntax /limit: Limit 1: expected name=value, got "room".'),
        ("tpu=1", 'limit.unknown_resource /limit/amount/tpu: The pool has no resource "tpu".'),
        ("; a=b", "limit.empty /limit/amount: A limit must name at least one resource."),
    ],
)
def test_rows_with_limits_that_are_none_are_refused(lab, command, cell, error):
    before = state(lab)
    for row in (f",a,,,,,{cell}\n", f"member,u1,,,,,{cell}\n"):
        ran = command("import_groups", LIMITED + row)
        assert any(error in line for line in ran.lines), ran.lines
    assert state(lab) == before


def test_a_policy_that_keeps_no_limits_refuses_the_file(lab, command):
    lab.policy_name = "h-mrf"
    lab.save()
    ran = command("import_groups", LIMITED + ",a,,,,,cpu=1\n", "--dry-run")
    assert ran.code != 0
    assert "does not keep limits" in ran.error
    assert command("import_groups", LIMITED + ",a,,,,,\n").code == 0


def test_limits_of_accounts_are_limits_of_groups_and_members(lab, command):
    lines = SACCTMGR.splitlines()
    cells = {
        "lab| science": "cpu=64,mem=512G,node=4", "lab|   speech": "gres/gpu:a100=2,mem=1000",
        "lab|  labs": "",
    }  # fmt: skip
    file = "\n".join(
        [f"{lines[0]}|GrpTRES", *(f"{line}|{_cell(line, cells)}" for line in lines[1:])]
    )
    ran = command("import_groups", file, "--format", "sacctmgr", "--register-tenants")
    assert ran.code == 0, ran.lines
    assert limits_of(lab) == {
        "science": "cpu=64, memory=512",
        "speech": "memory=0.9765625",
    }
    assert any("node" in line and "gres/gpu" in line for line in ran.lines), ran.lines


def _cell(line, cells):
    return next((cell for start, cell in cells.items() if line.startswith(f"{start}|")), "")
