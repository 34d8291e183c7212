"""Answers as JSON with one value that is false, or is no value of an answer at all."""

import copy

from tests.forger.changes.base import some

# Members of these may be another unit of the same, or are harmless where they are changed a little.
FREE = {"certificate", "policy"}
WRONG_KINDS = (float("inf"), -float("inf"), float("nan"), 10**400, True, "1", [1], {"value": 1})


def ways_to(part, way=()):
    """Every value within a document, with the way to it."""
    yield way, part
    items = part.items() if isinstance(part, dict) else ()
    items = enumerate(part) if isinstance(part, list) else items
    for key, value in items:
        yield from ways_to(value, (*way, key))


def at(document, way):
    for step in way:
        document = document[step]
    return document


def put(document, way, value):
    changed = copy.deepcopy(document)
    at(changed, way[:-1])[way[-1]] = value
    return changed


def is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def numbers(document):
    return [way for way, value in ways_to(document) if is_number(value) and way[0] != "policy"]


def pick(rng, ways):
    at_ = some(rng, list(range(len(ways))))
    return None if at_ is None else ways[at_]


def a_value_of_another_kind(document, rng):
    way = pick(rng, numbers(document))
    value = WRONG_KINDS[rng.integers(len(WRONG_KINDS))]
    if isinstance(value, str) and way[0] == "history":
        value = None  # a decimal as a text is an amount of a history
    return put(document, way, value)


def a_whole_number_and_a_part(document, rng):
    ways = [way for way in numbers(document) if type(at(document, way)) is int]
    way = pick(rng, ways)
    return way and put(document, way, at(document, way) + float(rng.choice([0.9, 0.5, 0.002])))


def an_unknown_member(document, rng):
    objects = [way for way, part in ways_to(document) if isinstance(part, dict)]
    changed = copy.deepcopy(document)
    name = str(rng.choice(["repaid", "start", "made_up", ""]))
    at(changed, pick(rng, objects))[name] = 1
    return changed


def a_row_twice(document, rng):
    lists = [
        way
        for way, part in ways_to(document)
        if isinstance(part, list) and part and isinstance(part[0], dict)
    ]
    changed = copy.deepcopy(document)
    rows = at(changed, pick(rng, lists))
    row = copy.deepcopy(rows[rng.integers(len(rows))])
    if is_number(row.get("tasks")):
        row["tasks"] = 99
    rows.insert(0, row)
    return changed


def a_number_that_does_not_follow(document, rng):
    ways = [way for way in numbers(document) if way[0] not in FREE]
    way = pick(rng, ways)
    if way is None:
        return None
    value = at(document, way)
    more = 1 if type(value) is int else 1e-3 * max(abs(value), 1.0)
    return put(document, way, value + more)


def a_number_where_there_is_none(document, rng):
    nulls = [way for way, value in ways_to(document) if value is None]
    value = (0, float("inf"), 0.5)[rng.integers(3)]
    way = pick(rng, nulls)
    return way and put(document, way, value)


def no_number_where_there_is_one(document, rng):
    ways = [way for way in numbers(document) if way[0] in ("summary", "certificate", "schedule")]
    ways = [way for way in ways if way[-1] not in ("proven", "moved_tasks")]
    way = pick(rng, ways)
    return way and put(document, way, None)


IN_DOCUMENTS = (
    a_value_of_another_kind,
    a_whole_number_and_a_part,
    an_unknown_member,
    a_row_twice,
    a_number_that_does_not_follow,
    a_number_where_there_is_none,
    no_number_where_there_is_one,
)
