"""Parts of pools that a process keeps from one decision to the next."""

from uuid import UUID

from allocator_service.allocation.placements import DecidedPlacements
from allocator_service.allocation.runs.known import DecidedTasks, Decisions, RowDocuments

FIRST, SECOND = UUID(int=1), UUID(int=2)


def test_only_changed_rows_are_built_again():
    known, built = RowDocuments(), []

    def build(row):
        built.append(row)
        return {"name": row[0], "tasks": row[1]}

    before = known.of("pool", [("a", 1), ("b", 2)], build)
    after = known.of("pool", [("b", 2), ("a", 3)], build)
    assert after == [{"name": "b", "tasks": 2}, {"name": "a", "tasks": 3}]
    assert after[0] is before[1]
    assert built == [("a", 1), ("b", 2), ("a", 3)]
    known.of("other", [("a", 3)], build)
    known.of("pool", [("a", 1)], build)  # which the last call did not have
    assert built[3:] == [("a", 3), ("a", 1)]


def test_pools_that_were_used_least_recently_are_dropped():
    known, built = RowDocuments(most_rows=3), []

    def build(row):
        built.append(row)
        return {"name": row}

    def rows_of(pool, count):
        return known.of(pool, [(pool, number) for number in range(count)], build)

    rows_of("first", 1)
    rows_of("second", 1)
    rows_of("first", 1)
    rows_of("third", 2)  # in place of the second
    rows_of("first", 1)
    assert [pool for pool, _ in built] == ["first", "second", "third", "third"]
    rows_of("large", 4)
    assert known._by_key == {}


def test_placements_are_those_of_the_run_alone():
    tasks = DecidedTasks(DecidedPlacements([], [], [], [], []), [])
    decisions = Decisions(most=2)
    decisions.keep(1, FIRST, tasks)
    assert decisions.of(1, FIRST) is tasks
    assert decisions.of(1, SECOND) is None
    assert decisions.of(2, FIRST) is None
    decisions.keep(1, SECOND, tasks)
    assert decisions.of(1, FIRST) is None
    decisions.keep(2, FIRST, tasks)
    decisions.keep(3, FIRST, tasks)
    assert decisions.of(1, SECOND) is None
    assert decisions.of(3, FIRST) is tasks
