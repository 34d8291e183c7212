"""Lists: pages, formats, filters kept, stable under inserts, as many queries for 1 row as for 100."""

import base64
import csv
import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from allocator_service.core.clock import utc_now
from allocator_service.core.spreadsheets import FORMULA_STARTS
from allocator_service.pools.models import Pool
from allocator_service.pools.server_services import ServerDraft, servers_contribute
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests import factories
from tests.factories import Client, vector

SERVERS = "/api/v1/pools/lab/servers/"


def fill(pool: Pool, count: int, tenant: Tenant, start: int = 0) -> list[str]:
    names = [f"n{number:03d}" for number in range(start, start + count)]
    servers_contribute(
        pool=pool, drafts=[ServerDraft(n, vector(1, 1), tenant) for n in names], now=utc_now()
    )
    workloads_submit(
        pool=pool, drafts=[WorkloadDraft(tenant, n, vector(1, 1)) for n in names], now=utc_now()
    )
    return names


@pytest.fixture
def lab(db):
    return factories.pool("lab")


def walk(client: Client, path: str) -> list[list[Any]]:
    """Every page of a list, following `next` as it is."""
    pages = []
    while path:
        response = client.get(path)
        assert response.status_code == 200, response.content
        document = response.json()
        link = f'<{document["next"]}>; rel="next"' if document["next"] else None
        assert response.get("Link") == link
        assert ("X-Next-Cursor" in response) == (document["next"] is not None)
        pages.append(document["results"])
        path = document["next"]
    return pages


@pytest.mark.parametrize("limit", [1, 7, 24, 25, 26, 1000])
def test_pages_of_any_size_give_every_row_once_in_order(limit, lab, operator):
    names = fill(lab, 25, factories.tenant("ada"))
    pages = walk(operator, f"{SERVERS}?limit={limit}")
    assert [row["name"] for page in pages for row in page] == names
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)


def test_a_page_has_a_hundred_rows_unless_said(lab, operator):
    fill(lab, 101, factories.tenant("ada"))
    assert [len(page) for page in walk(operator, SERVERS)] == [100, 1]


def test_rows_added_while_walking_shift_nothing(lab, operator):
    ada = factories.tenant("ada")
    names = fill(lab, 6, ada)
    first = operator.get(f"{SERVERS}?limit=3").json()
    more = fill(lab, 3, ada, start=500)
    rest = [row["name"] for page in walk(operator, first["next"]) for row in page]
    assert [row["name"] for row in first["results"]] + rest == names + more


def test_a_row_taken_away_while_walking_hides_no_other(lab, operator):
    names = fill(lab, 6, factories.tenant("ada"))
    first = operator.get(f"{SERVERS}?limit=3").json()
    for row in first["results"]:
        operator.delete(f"{SERVERS}{row['id']}/", If_Match='"v1"')
    rest = [row["name"] for page in walk(operator, first["next"]) for row in page]
    assert rest == names[3:]


def test_the_next_page_keeps_the_filters(lab, operator):
    ada, bob = factories.tenant("ada"), factories.tenant("bob")
    fill(lab, 4, ada)
    fill(lab, 4, bob)
    pages = walk(operator, f"{SERVERS}?contributed_by=bob&limit=3")
    assert [row["contributed_by"] for page in pages for row in page] == ["bob"] * 4


def test_no_list_counts_its_rows(world, operator):
    with CaptureQueriesContext(
        connection,
    ) as queries:
        for path in ("tenants/", "pools/", "pools/lab/servers/", "pools/lab/workloads/"):
            operator.get(f"/api/v1/{path}")
    assert not [query for query in queries if "COUNT(" in query["sql"].upper()]


LISTS = [
    "tenants/",
    "pools/",
    *(f"pools/lab/{part}/" for part in ("groups", "members", "servers", "workloads")),
]


@pytest.mark.parametrize("path", LISTS)
def test_a_hundred_rows_take_as_many_queries_as_one(path, lab, operator):
    def queries() -> tuple[int, int]:
        with CaptureQueriesContext(connection) as captured:
            response = operator.get(f"/api/v1/{path}")
        return len(captured), len(response.json()["results"])

    ada = factories.tenant("ada")
    fill(lab, 1, ada)
    factories.group(lab, "top")
    queries()  # the first of a minute notes that the key was used
    few, rows = queries()
    assert rows == 1
    fill(lab, 99, ada, start=200)
    for number in range(99):
        tenant = factories.tenant(f"t{number}")
        factories.workload(lab, "w", 1, 1, tenant)
        factories.pool(f"p{number}")
        factories.group(lab, f"g{number}", "top")
    many, rows = queries()
    assert rows == 100
    assert many == few <= 15


def test_csv_and_ndjson_have_the_same_rows_as_json(world, operator):
    path = "/api/v1/pools/lab/workloads/"
    rows = operator.get(path).json()["results"]
    lines = operator.get(path, Accept="application/x-ndjson")
    assert lines["Content-Type"] == "application/x-ndjson"
    assert [json.loads(line) for line in lines.content.splitlines()] == rows
    table = operator.get(f"{path}?format=csv")
    assert table["Content-Type"] == "text/csv; charset=utf-8"
    read = list(csv.DictReader(table.content.decode().splitlines()))
    assert [(r["id"], r["tenant"], r["demand.cpu"], r["tasks"]) for r in read] == [
        (row["id"], row["tenant"], str(row["demand"]["cpu"]), "") for row in rows
    ]


@pytest.mark.parametrize("wanted", ["csv", "ndjson"])
def test_other_formats_are_paged_by_headers(wanted, lab, operator):
    fill(lab, 5, factories.tenant("ada"))
    response = operator.get(f"{SERVERS}?format={wanted}&limit=3")
    cursor = response["X-Next-Cursor"]
    url = response["Link"].removeprefix("<").removesuffix('>; rel="next"')
    assert f"format={wanted}" in url
    assert operator.get(url).content == operator.get(
        f"{SERVERS}?format={wanted}&limit=3&cursor={cursor}"
    ).content  # fmt: skip
    assert "X-Next-Cursor" not in operator.get(url)


def test_an_empty_csv_has_its_header(lab, operator):
    assert operator.get(f"{SERVERS}?format=csv").content == (
        b"id,pool,name,contributed_by,capacity.cpu,capacity.memory,labels,cluster,state,version,"
        b"created_at,retired_at\r\n"
    )


def test_an_empty_ndjson_is_ndjson(lab, operator):
    response = operator.get(f"{SERVERS}?format=ndjson")
    assert (response.content, response["Content-Type"]) == (b"", "application/x-ndjson")


@pytest.mark.parametrize("start", FORMULA_STARTS[:4] + FORMULA_STARTS[7:])
def test_a_name_that_is_a_formula_is_quoted_in_csv(start, lab, operator):
    """The full-width forms too, which some spreadsheets read as ASCII."""
    operator.post(SERVERS, {"name": f'{start}HYPERLINK("x")', "capacity": {"cpu": 1}})
    assert f'"\'{start}HYPERLINK(""x"")"'.encode() in operator.get(f"{SERVERS}?format=csv").content


def test_a_cursor_holds_only_what_the_page_showed(world):
    fill(world.lab, 3, world.ada)
    response = world.as_ada.get(f"{SERVERS}?limit=2")
    cursor = response["X-Next-Cursor"]
    content = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    assert content == [1, "servers", response.json()["results"][1]["id"]]


@pytest.mark.parametrize(
    "content", [[2, "servers", "x"], [1, "servers", 1], [1, "servers", None], [1, "servers"], {}, 1]
)
def test_a_forged_cursor_is_refused(content, lab, operator):
    cursor = base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
    response = operator.get(f"{SERVERS}?cursor={cursor}")
    assert (response.status_code, response.json()["status"]) == (400, 400)
