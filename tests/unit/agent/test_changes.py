"""Plans: one entry for each object, sorted, and the counts below."""

from allocator_agent.changes import ObjectChange, Value, by_object, counts_text, plan_lines
from allocator_agent.slurm.limit_changes import LimitChange, LimitRemoval, MinutesChange
from allocator_agent.slurm.planning import SlurmPlan
from allocator_agent.slurm.reading import Reservation
from allocator_agent.slurm.reservations import ReservationChange


def test_everything_about_an_object_is_in_one_place():
    plan = SlurmPlan(
        limits=[LimitChange(("b", "", ""), {"cpu": None}, {"cpu": 4}, ("1", "2000"))],
        removals=[LimitRemoval(("a", "", ""), {"mem": 9}, "an account below it has no limit")],
        minutes=[
            MinutesChange("b", {"cpu": -1}, {"cpu": 60}),
            MinutesChange("a", {"cpu": 5}, {"cpu": 6}),
        ],
        reassigned={"a": ["7"]},
    )
    assert plan_lines("slurm", plan.shown()) == [
        "slurm:",
        "  ~ account a",
        "      mem 9 -> unlimited",
        "      cpu minutes 5 -> 6",
        "      an account below it has no limit",
        "  ~ account b",
        "      cpu unlimited -> 4",
        "      fairshare 1 -> 2000",
        "      cpu minutes unlimited -> 60",
        "  ~ job 7 of a",
        "      moved to the limits of its partition",
    ]
    assert counts_text(plan.shown()) == "0 to add, 3 to change, 0 to remove"


def test_reservations_show_what_changes_of_them():
    before = Reservation("r", 0, 600, "a", "big", 4)
    after = Reservation("r", 60, 600, "a", "big", 6)
    changes = [
        ReservationChange("new", None, before),
        ReservationChange("r", before, after),
        ReservationChange("old", before, None),
    ]
    shown = [change.shown() for change in changes]
    assert shown[1].lines() == [
        "  ~ reservation r",
        "      cores 4 -> 6",
        "      start 1970-01-01T00:00:00 -> 1970-01-01T00:01:00",
    ]
    assert shown[0].lines()[:3] == ["  + reservation new", "      account a", "      cores 4"]
    assert shown[2].lines()[0] == "  - reservation old"
    assert counts_text(shown) == "1 to add, 1 to change, 1 to remove"
    assert [each.name for each in by_object(shown)] == [
        "reservation new", "reservation old", "reservation r",
    ]  # fmt: skip


def test_an_object_that_is_removed_and_added_is_changed():
    changes = [ObjectChange("-", "x", (Value("cpu", "1", ""),)), ObjectChange("+", "x")]
    assert counts_text(changes) == "0 to add, 1 to change, 0 to remove"
    assert plan_lines("none", []) == []
    assert counts_text([]) == "0 to add, 0 to change, 0 to remove"
