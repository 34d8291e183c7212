"""The feed of events over HTTP: in order, each once, own ones only."""

import pytest

from allocator_service.core.clock import utc_now
from allocator_service.core.outbox import event_record, events_seal
from tests.api.v1.test_conventions import code

pytestmark = pytest.mark.django_db
FEED = "/api/v1/events/"


def happened(kind, **fields):
    event_record(kind=kind, payload={"kind": kind}, now=utc_now(), **fields)
    events_seal()


def followed(client, limit):
    seen, after = [], None
    while True:
        query = f"?limit={limit}" + (f"&after={after}" if after else "")
        page = client.get(FEED + query).json()
        seen += [event["kind"] for event in page["results"]]
        assert page["next_cursor"] is not None or seen == []
        after = page["next_cursor"]
        if not page["results"]:
            return seen, after


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_pages_of_any_size_tell_every_event_once(operator, limit):
    for number in range(9):
        happened(f"kind.{number}")
    seen, after = followed(operator, limit)
    assert seen == [f"kind.{number}" for number in range(9)]
    happened("later")
    assert [e["kind"] for e in operator.get(f"{FEED}?after={after}").json()["results"]] == ["later"]


def test_what_is_not_sealed_is_not_told(operator):
    event_record(kind="unsealed", payload={}, now=utc_now())
    assert operator.get(FEED).json() == {"results": [], "next": None, "next_cursor": None}


def test_a_tenant_is_told_of_itself_and_of_its_pools_only(world, billing):
    happened("own", pool="lab", tenant="ada")
    happened("other", pool="lab", tenant="bob")
    happened("pool", pool="lab")
    happened("elsewhere", pool="other")
    seen, _ = followed(world.as_ada, 2)
    assert [kind for kind in seen if "." not in kind] == ["own", "pool"]
    whole, _ = followed(billing, 100)
    assert {"own", "other", "pool", "elsewhere"} <= set(whole)


def test_a_cursor_says_nothing_of_others(world):
    happened("own", pool="lab", tenant="ada")
    before = world.as_ada.get(FEED).json()
    happened("other", pool="other", tenant="eve")
    assert world.as_ada.get(FEED).json() == before


@pytest.mark.parametrize("after", ["x", "AAAA", "W10", "WzEsInBvb2xzIiwibGFiIl0"])
def test_a_cursor_of_something_else_is_refused(operator, after):
    assert code(operator.get(f"{FEED}?after={after}")) == (400, "cursor.invalid")


def test_the_feed_is_there_as_csv_and_lines_too(operator):
    happened("kind.1")
    csv = operator.get(f"{FEED}?format=csv")
    assert csv.content.decode().splitlines()[0].startswith("id,kind,pool")
    assert csv.headers["X-Next-Cursor"]
    assert operator.get(f"{FEED}?format=ndjson").content.count(b"\n") == 1
