"""What has to change in Slurm: pure functions, and their properties over random clusters."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator_agent.model import Job, Node
from allocator_agent.slurm.limit_changes import LimitChange
from allocator_agent.slurm.planning import (
    SlurmPlan,
    handed_out,
    plan_limits,
    plan_minutes,
    plan_reassignments,
    plan_removals,
)
from allocator_agent.slurm.reading import Association, Partition, Reservation
from allocator_agent.slurm.reservations import (
    ReservationChange,
    in_partitions,
    plan_moves,
    plan_reservations,
    without_reserved,
)
from allocator_agent.slurm.writing import load_file, modifications
from tests.examples import examples
from tests.unit.agent.shown import shown, shown_plan

MIB = 2**20


def job(number, *, account="a", cpu=1, memory=100, running=True, started=0, **more):
    demand = {"cpu": Fraction(cpu), "memory": Fraction(memory * MIB)}
    return Job(str(number), account, demand, running, started=started, **more)


def row(account, user="", partition="", *, fairshare="1", **limits):
    return Association(account, user, partition, limits, fairshare)


def account(tenant, fairshare=1, **limits):
    return {"kind": "account", "tenant": tenant, "fairshare": fairshare, "limits": limits}


def of_class(tenant, partition, **limits):
    return {"kind": "class", "tenant": tenant, "partition": partition, "limits": limits}


def changes(objects, rows, jobs=(), *, classes=False):
    names = {item.account: item.account for item in rows}
    return plan_limits(objects, rows, jobs, names, classes=classes)


def test_only_what_differs_is_planned():
    rows = [row("a", cpu=4, mem=100), row("b", cpu=4, mem=100), row("c")]
    planned, problems = changes(
        [account("a", cpu=4, mem=100), account("b", cpu=6, mem=50), account("d", cpu=1, mem=1)],
        rows,
    )
    assert shown(*planned) == ["~ account b", "cpu 4 -> 6", "mem 100 -> 50"]
    assert planned[0].lowered == {"cpu": 4, "mem": 50}
    assert (planned[0].lowers, planned[0].raises) == (True, True)
    assert problems == {"d": ["Slurm has no account for it"]}
    assert changes([account("d", cpu=0, mem=0)], rows) == ([], {})  # and needs none


def refused_name(text):
    return f"Slurm would take {text!r} for other names: no limit or reservation is written"


@pytest.mark.parametrize("name", ["a'b", "a,b", 'a"b', "a b", "a:b", "a\nb", "-a", "+a", "*a"])
def test_names_that_sacctmgr_would_take_for_others_are_refused(name):
    planned, problems = changes([account(name, cpu=4)], [row(name)])
    assert (planned, problems) == ([], {name: [refused_name(name)]})


def test_an_account_without_a_limit_is_lowered_first():
    planned, _ = changes([account("a", cpu=4)], [row("a")])
    assert (planned[0].lowers, planned[0].raises) == (True, False)
    assert shown_plan(SlurmPlan(planned)) == ["~ account a", "cpu unlimited -> 4"]


def test_limits_that_the_decision_does_not_name_are_left():
    planned, _ = changes([account("a", cpu=4)], [row("a", cpu=4, billing=9)])
    assert planned == []


def test_a_fair_share_that_differs_is_written_with_the_raises():
    planned, _ = changes([account("a", fairshare=2000, cpu=4)], [row("a", cpu=4)])
    assert shown(planned[0]) == ["~ account a", "fairshare 1 -> 2000"]
    assert (planned[0].lowers, planned[0].raises) == (False, True)


def test_new_users_of_a_partition_are_loaded_below_their_accounts():
    planned, _ = changes(
        [
            of_class("a", "big", cpu=1, mem=5),
            of_class("b", "big", cpu=2, mem=5),
            of_class("a", "small", cpu=3, mem=5),
        ],
        [row(name) for name in "ab"] + [row(name, "ann", fairshare="parent") for name in "ab"],
        classes=True,
    )
    rows = [(change, change.lowered) for change in planned]
    assert load_file("lab", rows) == (
        "Cluster - 'lab'\n"
        "Parent - 'a'\n"
        "User - 'ann':Partition='big':GrpTRES=cpu=1,mem=5\n"
        "Parent - 'b'\n"
        "User - 'ann':Partition='big':GrpTRES=cpu=2,mem=5\n"
        "Parent - 'a'\n"
        "User - 'ann':Partition='small':GrpTRES=cpu=3,mem=5\n"
    )
    assert modifications(rows) == []
    assert [change.raises for change in planned] == [False] * 3
    assert shown(planned[0]) == [
        "+ user ann of account a in partition big",
        "cpu unlimited -> 1",
        "mem unlimited -> 5",
    ]


def test_accounts_that_get_the_same_are_set_by_one_command():
    rows = [row(f"a{n}", fairshare="2" if n == 8 else "1") for n in range(9)]
    objects = [account(f"a{n}", cpu=0 if n < 7 else 5) for n in range(9)]
    planned, _ = changes(objects, rows)
    assert modifications([(change, change.after) for change in planned]) == [
        (
            ("account", "where", "account=a0,a1,a2,a3,a4,a5,a6"),
            ("GrpTRES=cpu=0",),
        ),
        (("account", "where", "account=a7"), ("GrpTRES=cpu=5",)),
        (("account", "where", "account=a8"), ("GrpTRES=cpu=5", "Fairshare=1")),
    ]


def test_a_command_names_few_enough_accounts_for_a_command_line():
    planned, _ = changes(
        [account(f"a{n}", cpu=0) for n in range(1001)], [row(f"a{n}") for n in range(1001)]
    )
    told = modifications([(change, change.lowered) for change in planned])
    assert [len(whose[2].split(",")) for whose, _ in told] == [500, 500, 1]


def test_a_user_of_a_partition_is_set_alone():
    rows = [row("a"), row("a", "ann"), row("a", "ann", "big", cpu=4)]
    planned, _ = changes([of_class("a", "big", cpu=1)], rows, classes=True)
    assert modifications([(change, change.lowered) for change in planned]) == [
        (("user", "where", "user=ann", "account=a", "partition=big"), ("GrpTRES=cpu=1",))
    ]


def test_what_falls_takes_a_changed_fair_share_along():
    planned, _ = changes([account("a", fairshare=2000, cpu=4)], [row("a", cpu=9)])
    assert (planned[0].lowers, planned[0].raises) == (True, False)
    assert modifications([(change, change.lowered) for change in planned]) == [
        (("account", "where", "account=a"), ("GrpTRES=cpu=4", "Fairshare=2000"))
    ]


def test_a_classs_limit_goes_to_the_users_whose_jobs_come_first():
    jobs = [
        job(1, user="ann", partition="big", cpu=2, started=5),
        job(3, user="bob", partition="big", running=False),
        job(2, user="cid", partition="big", running=False, cpu=9),
        job(4, user="bob", partition="small", running=False),
    ]
    rows = [row("a"), *(row("a", name) for name in ("ann", "bob", "cid"))]
    planned, _ = changes([of_class("a", "big", cpu=4, mem=1000)], rows, jobs, classes=True)
    told = {change.key[1]: change.after for change in planned}
    assert told == {
        "ann": {"cpu": 3, "mem": 900},  # what is left is of no use to others now
        "bob": {"cpu": 1, "mem": 100},
        "cid": {"cpu": 0, "mem": 0},
    }


amounts = st.fixed_dictionaries({"cpu": st.integers(0, 9), "mem": st.integers(0, 900)})
jobs_of_users = st.lists(
    st.builds(
        job,
        st.integers(1, 99),
        cpu=st.integers(1, 4),
        memory=st.integers(0, 300),
        running=st.booleans(),
        started=st.integers(0, 5),
        user=st.sampled_from(["ann", "bob", "cid"]),
    ),
    max_size=12,
)


@examples(500)
@given(amounts, jobs_of_users, st.lists(st.sampled_from(["ann", "bob"]), unique=True))
def test_users_limits_always_sum_to_the_classs(limit, jobs, users):
    told = handed_out(limit, jobs, users)
    assert set(told) == set(users)
    for name, most in limit.items():
        assert sum(limits[name] for limits in told.values()) == (most if users else 0)
        assert all(limits[name] >= 0 for limits in told.values())


@examples(500)
@given(st.lists(st.tuples(st.none() | amounts, amounts), min_size=1, max_size=8), st.randoms())
def test_at_no_moment_limits_sum_to_more_than_before_or_after(pairs, random):
    """Whatever order Slurm applies the associations of a batch in."""
    before = {f"a{n}": pair[0] for n, pair in enumerate(pairs)}
    rows = [row(name, **(limits or {})) for name, limits in before.items()]
    planned, _ = changes([account(f"a{n}", **pair[1]) for n, pair in enumerate(pairs)], rows)
    state = {name: dict(limits or {"cpu": 10**6, "mem": 10**6}) for name, limits in before.items()}

    def total(name):
        return sum(limits[name] for limits in state.values())

    most = {name: max(total(name), sum(pair[1][name] for pair in pairs)) for name in ("cpu", "mem")}
    for batch in (
        [(c, c.lowered) for c in planned if c.lowers],
        [(c, c.after) for c in planned if c.raises],
    ):
        random.shuffle(batch)
        for change, limits in batch:
            state[change.key[0]].update(limits)
            assert all(total(name) <= most[name] for name in most)
    assert state == {f"a{n}": pair[1] for n, pair in enumerate(pairs)}


def slot(name, start, end, cores=4, who="a", partition=""):
    return Reservation(f"allocator-lab-{name}", start, end, who, partition, cores)


PREFIX = "allocator-lab-"
NAMES = [f"{number:012x}" for number in range(10)]


def plan_slots(wanted, present, *, reserved=(), running=(), now=100):
    return plan_reservations(
        wanted, present, PREFIX, now=now, reserved=dict(reserved), running=set(running)
    )


def test_reservations_are_made_changed_and_deleted_and_those_of_others_left():
    same, moved, cores, old, new, over, runs, other = NAMES[:8]
    present = [
        slot(same, 200, 300),
        slot(moved, 300, 400),
        slot(cores, 400, 450),
        slot(old, 400, 500, who="b"),
        slot(runs, 50, 150, cores=3),
        slot(other, 20, 100),  # over
        Reservation("allocator-other-0123456789ab", 400, 500, "z", "", 1),
        Reservation("allocator-lab-2-0123456789ab", 400, 500, "z", "", 1),  # of the pool lab-2
        Reservation("maintenance", 400, 500, "", "", 1),
    ]
    wanted = [
        slot(same, 200, 300),
        slot(moved, 310, 400),
        slot(cores, 400, 450, cores=5),
        slot(runs, 50, 150, cores=4),
        slot(new, 500, 600),
        slot(over, 10, 90),
    ]
    # Slurm changes the cores of no reservation: a new one of the same name takes its place.
    planned = plan_slots(wanted, present, reserved={PREFIX + runs: ["7", "8"]}, running=["7"])
    assert [
        (each.name.removeprefix(PREFIX), each.before is None, each.after is None, each.jobs)
        for each in planned.changes
    ] == [
        (cores, False, True, ()),
        (old, False, True, ()),
        (runs, False, True, ("7", "8")),
        (moved, False, False, ()),
        (runs, True, False, ()),
        (cores, True, False, ()),
        (new, True, False, ()),
    ]
    # Slurm makes none that began long ago.
    assert [each.after.start for each in planned.changes if each.before is None] == [100, 400, 500]


def test_a_reservation_in_force_that_states_the_same_is_kept_whatever_its_name():
    held = slot(NAMES[0], 0, 150)
    again = slot(NAMES[1], 60, 210)
    planned = plan_slots([again], [held], reserved={held.name: ["7"]}, running=["7"])
    kept = slot(NAMES[0], 0, 210)
    assert planned.changes == [ReservationChange(held.name, held, kept)]
    assert planned.slots == [kept]
    assert plan_slots([again], [kept]).changes == []
    # Slurm kills what runs in a reservation when it ends, so that it leaves before an earlier end.
    sooner = slot(NAMES[1], 60, 120)
    (change,) = plan_slots(
        [sooner], [held], reserved={held.name: ["7", "8"]}, running=["7"]
    ).changes
    assert (change.after.end, change.jobs) == (120, ("7",))
    waiting = [job(1, running=False), job(2, running=False, reservation=held.name)]
    moves = plan_moves(planned.slots, waiting, {}, PREFIX, now=100)
    assert moves == [(held.name, ["1"])]


def test_a_slot_in_force_stays_until_another_timetable_has_begun():
    held = slot(NAMES[0], 0, 110)
    assert plan_slots([slot(NAMES[1], 110, 200, who="b")], [held]).changes[0].before is None
    (made, deleted) = plan_slots([slot(NAMES[1], 90, 200, who="b")], [held]).changes[::-1]
    assert (made.name, deleted.name) == (PREFIX + NAMES[1], PREFIX + NAMES[0])
    assert [change.after for change in plan_slots([], [held]).changes] == [None]


PARTITIONS = {
    "big": Partition(("big",), 4, 8, frozenset({"b1", "b2"})),
    "small": Partition(("small",), 4, 8, frozenset({"s1", "s2"})),
    "fast": Partition(("small",), 4, 4, frozenset({"s1"})),
}


def parts_of(item, jobs, present=()):
    found = in_partitions([item], present, jobs, PARTITIONS, PREFIX, now=100)
    assert len({part.name for part in found}) == len(found)
    return {part.partition: part.cores for part in found}


def in_partition(number, name, cpu, **more):
    return job(number, cpu=cpu, partition=name, **more)


def test_slots_are_in_the_partitions_where_jobs_wait():
    item = slot(NAMES[0], 50, 150, cores=6)
    small = in_partition(1, "small", 6, running=False)
    assert parts_of(item, []) == {"": 6}  # no partition has every node
    assert parts_of(item, [small]) == {"small": 6}
    assert parts_of(item, [in_partition(1, "small", 2)]) == {"small": 6}
    both = [in_partition(1, "small", 4), in_partition(2, "big", 4, running=False)]
    assert parts_of(item, [*both, in_partition(3, "big", 2, running=False)]) == {
        "small": 4,
        "big": 2,
    }
    assert parts_of(item, [in_partition(1, "big", 9, account="b")]) == {"": 6}
    # The slot of a class is in partitions of no other class.
    of_class = slot(NAMES[0], 50, 150, cores=4, partition="small")
    assert parts_of(of_class, [in_partition(1, "fast", 4, running=False)]) == {"fast": 4}
    assert parts_of(of_class, [in_partition(1, "big", 4, running=False)]) == {"small": 4}
    # Slurm reserves no more than a partition has.
    large = slot(NAMES[0], 50, 150, cores=9)
    assert parts_of(large, [small]) == {"small": 8}


def test_cpus_of_slots_are_reserved_in_cores():
    """What is left of a core is reserved, and read back it is the same slot."""
    threads = {"b1": 2, "b2": 2, "s1": 2, "s2": 2}

    def cores_of(item, jobs, present=()):
        found = in_partitions([item], present, jobs, PARTITIONS, PREFIX, now=100, threads=threads)
        return {part.partition: part for part in found}

    item = slot(NAMES[0], 50, 150, cores=5)
    small = in_partition(1, "small", 3, running=False)
    first = cores_of(item, [small])
    assert {name: part.cores for name, part in first.items()} == {"small": 3}
    both = [small, in_partition(2, "big", 2, running=False)]
    second = cores_of(item, both, list(first.values()))
    assert {name: part.cores for name, part in second.items()} == {"small": 2, "big": 1}
    third = cores_of(item, both, list(second.values()))
    assert third == second
    assert cores_of(item, [])[""].cores == 3
    mixed = in_partitions(
        [item], [], [small], PARTITIONS, PREFIX, now=100, threads={**threads, "s2": 1}
    )
    # A core of any of its nodes has one CPU at least.
    assert [part.cores for part in mixed] == [6]


def test_a_division_stays_while_no_core_of_it_could_serve_elsewhere():
    item = slot(NAMES[0], 50, 150, cores=6)
    present = [
        slot(NAMES[1], 20, 120, cores=4, partition="small"),
        slot(NAMES[2], 20, 120, cores=2, partition="big"),
    ]
    ended = [in_partition(1, "small", 2), in_partition(2, "big", 2, running=False)]
    assert parts_of(item, ended, present) == {"small": 4, "big": 2}
    more = [*ended, in_partition(3, "big", 2, running=False)]
    assert parts_of(item, more, present) == {"small": 2, "big": 4}
    full = [in_partition(1, "small", 4), in_partition(2, "big", 8, running=False)]
    assert parts_of(item, full, present) == {"small": 4, "big": 2}


@given(
    st.integers(1, 20),
    st.lists(st.tuples(st.sampled_from(sorted(PARTITIONS)), st.integers(1, 6)), max_size=8),
)
@examples(200)
def test_divided_cores_are_those_of_the_slot_and_fit_their_partitions(cores, asked):
    jobs = [
        in_partition(number, name, cpu, running=False) for number, (name, cpu) in enumerate(asked)
    ]
    item = slot(NAMES[0], 50, 150, cores=cores)
    parts = parts_of(item, jobs)
    if asked:
        room = sum(PARTITIONS[name].cpus for name in {name for name, _ in asked})
        assert sum(parts.values()) == min(cores, room)
        assert all(count <= PARTITIONS[name].cpus for name, count in parts.items())
    present = [
        slot(NAMES[number], 50, 150, cores=count, partition=name)
        for number, (name, count) in enumerate(parts.items())
    ]
    assert parts_of(item, jobs, present) == parts


def test_waiting_jobs_go_to_their_accounts_next_reservation():
    slots = [
        slot("2", 200, 300),
        slot("1", 100, 200),
        slot("b", 0, 300, who="b"),
        slot("0", 0, 50),
    ]
    jobs = [
        job(1, running=False),
        job(2, running=False, reservation="allocator-lab-1"),
        job(3, running=True),
        job(4, running=False, reservation="allocator-lab-0"),
        job(5, running=False, account="c"),
        job(6, running=False, reservation="course"),  # of the site
    ]
    moves = plan_moves(slots, jobs, PARTITIONS, PREFIX, now=60)
    assert moves == [("allocator-lab-1", ["1", "4"])]


@pytest.mark.parametrize(
    ("partition", "fits"), [("big", True), ("small,big", True), ("small", False), ("all", True)]
)
def test_jobs_go_where_they_may_run_on_every_node(partition, fits):
    everywhere = {
        **PARTITIONS,
        "all": Partition(("big", "small"), 4, 16, frozenset(["b1", "b2", "s1"])),
    }
    in_big = [slot("x", 0, 300, partition="big")]
    waiting = [job(1, running=False, partition=partition)]
    moves = plan_moves(in_big, waiting, everywhere, PREFIX, now=60)
    assert moves == ([("allocator-lab-x", ["1"])] if fits else [])


def node(name, cpus=4):
    return Node(
        name, {"cpu": Fraction(cpus), "gpu": Fraction(2)}, {"partition": "big"}, draining=False
    )


def of_the_site(name, *nodes, is_active=True, **cores_of):
    return Reservation(name, 0, 10, "", "", 4, nodes, is_active, cores_of)


def test_reservations_of_others_in_force_are_lost_capacity():
    nodes = [node("whole"), node("part"), node("twice"), node("free"), node("ours")]
    present = [
        of_the_site("upgrade", "whole", "twice"),
        of_the_site("course", "part", "twice", part=1, twice=2),
        of_the_site("talk", "twice", twice=2),
        of_the_site("later", "free", is_active=False),
        of_the_site("allocator-lab-0123456789ab", "ours"),
        of_the_site("allocator-lab_hold_7", "ours"),
        of_the_site("allocator-other-0123456789ab", "part", part=1),
    ]
    own = ("allocator-lab-", "allocator-lab_hold_")
    found = {each.name: each for each in without_reserved(nodes, present, {}, own)}
    assert {name: each.draining for name, each in found.items()} == {
        "whole": True,
        "part": False,
        "twice": True,
        "free": False,
        "ours": False,
    }
    assert found["part"].capacity == {"cpu": 2, "gpu": 2}
    assert found["part"].labels == {
        "partition": "big",
        "reservation": "allocator-other-0123456789ab",
    }
    assert [found[name] for name in ("free", "ours")] == nodes[3:]
    # Without a line for each node, the cores of the only one are known.
    (only,) = without_reserved([node("n", 8)], [of_the_site("course", "n")], {}, own)
    assert only.capacity["cpu"] == 4
    # Slurm reserves cores, of two threads here.
    (only,) = without_reserved([node("n", 8)], [of_the_site("course", "n", n=3)], {"n": 2}, own)
    assert only.capacity["cpu"] == 2


def test_a_change_of_nothing_is_no_change():
    change = LimitChange(("a", "", ""), {"cpu": 4}, {"cpu": 4}, ("1", "1"))
    assert (change.lowers, change.raises) == (False, False)


def parent_of(objects, rows, accounts, parents, *, classes=False):
    removals, problems = plan_removals(objects, rows, accounts, parents, classes=classes)
    return shown(*removals), problems


def test_limits_of_a_parent_that_is_a_member_are_removed_and_no_others():
    rows = [
        row("faculty", cpu=0, mem=0, billing=5),
        row("physics", cpu=2, mem=100),
        row("site", cpu=100, mem=100),  # nobody's: not a member
        row("faculty", "ann", cpu=7),  # a user's own limit is the site's
    ]
    objects = [account("faculty", cpu=0, mem=0), account("physics", cpu=2, mem=100)]
    lines, problems = parent_of(
        objects, rows, {"physics": "physics"}, {"faculty": "faculty", "site": "site"}
    )
    assert lines == [
        "~ account faculty",
        "cpu 0 -> unlimited",
        "mem 0 -> unlimited",
        "it has accounts below it",
    ]
    assert problems == {
        "faculty": [
            "account faculty has accounts below it: it is not limited; end its membership of the pool"
        ]
    }


def test_limits_by_partition_are_removed_once_they_are_off():
    rows = [
        row("a", cpu=2, mem=9),
        row("a", "ann", "big", cpu=1, mem=5),
        row("a", "ann", "small", cpu=1),  # fewer resources than the agent writes: the site's own
    ]
    objects = [account("a", cpu=2, mem=9), of_class("a", "big", cpu=1, mem=5)]
    removed = [
        "~ user ann of account a in partition big",
        "cpu 1 -> unlimited",
        "mem 5 -> unlimited",
    ]
    assert parent_of(objects, rows, {"a": "a"}, {}) == (
        [*removed, "limits by partition are off"],
        {},
    )
    assert parent_of(objects, rows, {"a": "a"}, {}, classes=True) == ([], {})
    assert parent_of(objects[:1], rows, {"a": "a"}, {}, classes=True)[0] == [
        *removed,
        "nothing is decided for big",
    ]


def test_waiting_jobs_come_under_the_limits_of_their_partition():
    rows = [
        Association("a", "ann", "", {}, "1", "4"),
        Association("a", "ann", "big", {}, "1", "5"),
    ]
    objects = [of_class("a", "big", cpu=1), of_class("a", "small", cpu=1)]
    queued = {"running": False, "user": "ann"}
    jobs = [
        job(1, partition="big", association="4", **queued),
        job(2, partition="big", association="5", **queued),
        job(3, partition="small", association="4", **queued),
        job(4, partition="big,small", association="4", **queued),
        job(5, partition="other", association="4", **queued),
        job(6, partition="big", association="4", user="ann"),
        job(7, partition="big", association="9", account="b", **queued),
    ]
    assert plan_reassignments(objects, rows, jobs, {"a": "a"}) == (
        {"a": ["1", "3"]},
        {
            "a": [
                "job 4 names several partitions (big,small): no limit of a partition holds for it;"
                " submit it to one"
            ]
        },
    )


def test_what_runs_beside_a_classs_limits_is_taken_off_them():
    rows = [
        row("a"),
        Association("a", "ann", "", {}, "1", "4"),
        Association("a", "ann", "big", {"cpu": 9, "mem": 900}, "1", "5"),
    ]
    jobs = [
        job(1, user="ann", partition="big", cpu=2, association="4"),
        job(2, user="ann", partition="big", cpu=1, association="5"),
    ]
    planned, _ = changes([of_class("a", "big", cpu=4, mem=1000)], rows, jobs, classes=True)
    assert [change.after for change in planned] == [{"cpu": 2, "mem": 900}]


def test_minutes_are_planned_where_the_rendering_has_them():
    rows = [
        Association("a", "", "", {}, "1", "1", {"cpu": 60, "gres/gpu": 5}),
        Association("a", "ann", "", {}, "1", "2"),
        Association("labs", "", "", {}, "1", "3"),
        Association("old", "", "", {}, "1", "4", {"cpu": 7}),
        Association("site", "", "", {}, "1", "5", {"cpu": 9}),
    ]
    objects = [
        {"kind": "group", "group": "labs", "minutes": {"cpu": 600}},
        {"kind": "removed", "group": "old", "minutes": {"cpu": -1}},
        {"kind": "account", "tenant": "a", "group": "labs", "minutes": {"cpu": -1}},
        {"kind": "account", "tenant": "site"},
        {"kind": "account", "tenant": "elsewhere", "minutes": {"cpu": 1}},
    ]
    names = {row.account: row.account for row in rows}
    assert shown(*plan_minutes(objects, rows, names)) == [
        "~ account labs", "cpu minutes unlimited -> 600",
        "~ account old", "cpu minutes 7 -> unlimited",
        "~ account a", "cpu minutes 60 -> unlimited",
    ]  # fmt: skip
    after = [Association("a", "", "", {}, "1", "1", {"gres/gpu": 5})]
    assert plan_minutes(objects[2:3], after, names) == []
