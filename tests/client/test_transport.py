"""How the client asks: what is repeated and what is not, under which key, and what errors say."""

from datetime import UTC, datetime

import pytest

from allocator_client import Changed, Client, NotTheService, Problem, Unreachable
from allocator_client.transport import service_address

JSON = {"Content-Type": "application/json"}
PROBLEM = {"Content-Type": "application/problem+json"}
DONE = (200, {**JSON, "ETag": '"v1"', "Pool-Generation": "7"}, {"slug": "lab"})
HTML = (200, {"Content-Type": "text/html"}, b"<html>Welcome to nginx</html>")


def refusal(status, code, **headers):
    problem = {
        "code": code,
        "detail": "What would be right.",
        "status": status,
        "request_id": "r-1",
        "errors": [{"pointer": "/demand/gpu", "code": code, "detail": "No such resource."}],
    }
    return (status, {**PROBLEM, **headers}, problem)


@pytest.fixture
def asking(scripted):
    """A client of a service that answers as told, and the pauses that it makes."""

    def start(*answers, **options):
        told = scripted(*answers)
        pauses = []
        return told, Client(told.url, "alloc_secret", sleep=pauses.append, **options), pauses

    return start


def test_the_key_goes_with_every_request(asking):
    told, client, _ = asking(DONE)
    assert client.pools_show("lab").body == {"slug": "lab"}
    assert told.asked[0][2]["Authorization"] == "Bearer alloc_secret"


def test_a_post_is_repeated_under_one_idempotency_key_until_it_is_answered(asking):
    told, client, pauses = asking(
        None,
        refusal(503, "service.overloaded", **{"Retry-After": "2"}),
        refusal(429, "throttled"),
        refusal(409, "idempotency.in_flight", **{"Retry-After": "1"}),
        DONE,
    )
    answer = client.tenants_create({"slug": "a", "name": "A"})
    assert answer.generation == 7
    assert len({headers["Idempotency-Key"] for _, _, headers in told.asked}) == 1
    assert len(set(told.bodies)) == 1
    assert (pauses[1], pauses[3]) == (2, 1)
    assert 0.25 <= pauses[0] <= 0.5
    assert 1 <= pauses[2] <= 2


def test_two_posts_have_two_keys_unless_one_is_named(asking):
    told, client, _ = asking(DONE, DONE, DONE, DONE)
    for key in (None, None, "mine", "mine"):
        client.tenants_create({"slug": "a", "name": "A"}, idempotency_key=key)
    first, second, third, fourth = (headers["Idempotency-Key"] for _, _, headers in told.asked)
    assert first != second
    assert third == fourth == "mine"


def test_an_evaluation_is_repeated_without_a_key(asking):
    told, client, _ = asking(None, DONE)
    client.evaluations_compute({"resources": ["cpu"], "policy": {"name": "drf"}})
    assert ["Idempotency-Key" in headers for _, _, headers in told.asked] == [False, False]


def test_an_evaluation_that_took_too_long_is_not_asked_again(asking):
    told, client, _ = asking(refusal(503, "evaluation.timeout", **{"Retry-After": "1"}))
    with pytest.raises(Problem, match=r"evaluation\.timeout"):
        client.evaluations_compute({"resources": ["cpu"], "policy": {"name": "drf"}})
    assert len(told.asked) == 1


def test_a_change_whose_answer_is_lost_is_not_sent_again_and_says_so(asking):
    told, client, pauses = asking(None)
    with pytest.raises(Unreachable) as lost:
        client.tenants_update("a", {"name": "B"}, if_match='"v1"')
    assert lost.value.lost
    assert (len(told.asked), pauses) == (1, [])


@pytest.mark.parametrize("answer", [(502, {}, b"<html>"), (504, {}, b"")])
def test_a_gateway_that_lost_a_change_does_not_get_it_again(asking, answer):
    told, client, _ = asking(answer)
    with pytest.raises(Unreachable) as lost:
        client.tenants_retire("a", if_match='"v1"')
    assert lost.value.lost
    assert len(told.asked) == 1


def test_a_change_that_was_refused_for_now_is_sent_again(asking):
    told, client, _ = asking(refusal(503, "database.busy"), refusal(429, "throttled"), DONE)
    client.tenants_update("a", {"name": "B"}, if_match='"v1"')
    assert [headers["If-Match"] for _, _, headers in told.asked] == ['"v1"'] * 3


def test_a_change_without_a_version_is_made_to_the_one_that_is_there(asking):
    told, client, _ = asking(DONE, DONE)
    client.tenants_update("a", {"name": "B"})
    assert [method for method, _, _ in told.asked] == ["GET", "PATCH"]
    assert told.asked[1][2]["If-Match"] == '"v1"'


def test_a_member_that_is_not_there_is_put_without_a_version(asking):
    told, client, _ = asking(refusal(404, "member.not_found"), DONE)
    client.pools_members_put("lab", "a", {"weight": 2})
    assert [method for method, _, _ in told.asked] == ["GET", "PUT"]
    assert "If-Match" not in told.asked[1][2]


def test_an_object_that_changed_meanwhile_raises_changed(asking):
    told, client, _ = asking(refusal(412, "version.stale"))
    with pytest.raises(Changed) as stale:
        client.tenants_update("a", {"name": "B"}, if_match='"v1"')
    assert (stale.value.status, stale.value.code) == (412, "version.stale")
    assert len(told.asked) == 1


def test_a_refusal_says_status_code_detail_pointers_and_request(asking):
    told, client, pauses = asking(refusal(422, "demand.resource"))
    with pytest.raises(Problem) as raised:
        client.pools_workloads_create("lab", {"name": "a", "demand": {"gpu": 1}})
    problem = raised.value
    assert (problem.status, problem.code, problem.request_id) == (422, "demand.resource", "r-1")
    (mistake,) = problem.errors
    assert (mistake.pointer, mistake.detail) == ("/demand/gpu", "No such resource.")
    assert (len(told.asked), pauses) == (1, [])


def test_a_wait_longer_than_the_callers_patience_is_not_made(asking):
    _, client, pauses = asking(refusal(429, "throttled", **{"Retry-After": "3600"}))
    with pytest.raises(Problem) as raised:
        client.pools_show("lab")
    assert (raised.value.retry_after, pauses) == (3600, [])


def test_what_stays_overloaded_is_given_up_after_five_attempts(asking):
    told, client, pauses = asking(*[refusal(503, "database.busy")] * 5)
    with pytest.raises(Problem, match=r"503 database\.busy"):
        client.pools_show("lab")
    assert (len(told.asked), len(pauses)) == (5, 4)


@pytest.mark.parametrize("send", [
    lambda client: client.pools_show("lab"),
    lambda client: client.tenants_update("a", {"name": "B"}, if_match='"v1"'),
])  # fmt: skip
def test_where_nothing_listens_every_request_is_tried_again(scripted, send):
    url = scripted().url.rpartition(":")[0] + ":1"
    pauses = []
    with pytest.raises(Unreachable, match="cannot be reached") as away:
        send(Client(url, "alloc_secret", sleep=pauses.append))
    assert (away.value.lost, len(pauses)) == (False, 4)
    assert "alloc_secret" not in str(away.value)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (HTML, "answered 200 with text/html"),
        ((404, {"Content-Type": "text/html"}, b"<html>"), "answered 404 with text/html"),
        ((301, {"Location": "https://elsewhere/"}, b""), "301 with no content, to https://elsewhere/"),
        ((404, JSON, {"detail": "Not Found"}), "answered 404 with application/json"),
        ((200, JSON, b"{cut"), "no JSON"),
        ((422, PROBLEM, b"[]"), "answered 422"),
    ],
)  # fmt: skip
def test_another_web_server_is_not_taken_for_the_service(asking, answer, said):
    told, client, pauses = asking(answer)
    with pytest.raises(NotTheService, match="is not the allocation service") as wrong:
        client.pools_show("lab")
    assert said in str(wrong.value)
    assert (len(told.asked), pauses) == (1, [])


def test_an_overload_in_a_gateways_json_is_no_answer(asking):
    _, client, pauses = asking(*[(503, JSON, {"message": "no upstream"})] * 5)
    with pytest.raises(Unreachable, match="overloaded or down: 503"):
        client.pools_show("lab")
    assert len(pauses) == 4


def test_a_later_service_may_say_more_of_a_mistake(asking):
    status, headers, body = refusal(422, "demand.zero")
    body["errors"] = [{**body["errors"][0], "hint": "new in v1.9"}, {"pointer": "/x"}]
    _, client, _ = asking((status, headers, body))
    with pytest.raises(Problem) as raised:
        client.pools_workloads_create("lab", {"name": "a", "demand": {}})
    assert [each.pointer for each in raised.value.errors] == ["/demand/gpu", "/x"]


def test_the_readiness_is_an_answer_when_something_is_missing(asking):
    body = {"status": "failed", "checks": {"database": "failed"}}
    _, client, _ = asking((503, {**JSON, "Retry-After": "1"}, body))
    answer = client.readyz_show()
    assert (answer.status, answer.body) == (503, body)


def page(rows, cursor, *, last):
    headers = {**JSON, **({"X-Next-Cursor": cursor} if cursor else {})}
    following = None if last else f"http://evil.example/api/v1/x/?cursor={cursor}"
    if following:
        headers["Link"] = f'<{following}>; rel="next"'
    return (200, headers, {"results": rows, "next": following})


def test_a_list_is_fetched_page_by_page_while_it_is_read(asking):
    told, client, _ = asking(
        page([1, 2], "c1", last=False), page([3], "c2", last=False), page([], None, last=True)
    )
    rows = iter(client.pools_servers_list("lab", state="active"))
    assert [next(rows), next(rows)] == [1, 2]
    assert len(told.asked) == 1
    assert list(rows) == [3]
    base = "/api/v1/pools/lab/servers/?limit=1000"
    assert [path for _, path, _ in told.asked] == [
        f"{base}&state=active", f"{base}&cursor=c1&state=active", f"{base}&cursor=c2&state=active",
    ]  # fmt: skip


def test_a_feed_is_resumed_from_its_cursor(asking):
    told, client, _ = asking(page([1], "c1", last=True), page([2], "c2", last=True))
    feed = client.events_list()
    assert list(feed) == [1]
    later = client.events_list(after=feed.cursor)
    assert (list(later), later.cursor) == ([2], "c2")
    assert told.asked[1][1].endswith("&after=c1") or "after=c1&" in told.asked[1][1]


def test_the_pages_of_a_csv_have_one_header(asking):
    link = {"Link": '<http://x/?cursor=c1>; rel="next"', "X-Next-Cursor": "c1"}
    told, client, _ = asking(
        (200, {"Content-Type": "text/csv; charset=utf-8", **link}, "slug,name\r\na,Ä\r\n".encode()),
        (200, {"Content-Type": "text/csv; charset=utf-8"}, b'slug,name\r\nb,"two\nlines"\r\n'),
    )
    text = "".join(client.tenants_list().text("csv"))
    assert text == 'slug,name\r\na,Ä\r\nb,"two\nlines"\r\n'
    assert all("format=csv" in path for _, path, _ in told.asked)


def test_a_page_in_the_middle_is_asked_for_again_when_it_is_lost(asking):
    told, client, pauses = asking(page([1], "c1", last=False), None, page([2], None, last=True))
    assert list(client.tenants_list()) == [1, 2]
    assert (len(told.asked), len(pauses)) == (3, 1)


def test_a_file_that_ends_too_early_is_not_taken_for_whole(asking):
    _, client, _ = asking((200, {"Content-Type": "text/csv", "Content-Length": "1000"}, b"a,b\n"))
    with pytest.raises(Unreachable, match="too early"):
        client.ledger_entries_export_export(format="csv").read()


def test_a_file_is_opened_again_when_the_service_is_busy(asking):
    busy = refusal(503, "export.busy", **{"Retry-After": "1"})
    _, client, pauses = asking(
        busy, (200, {"Content-Type": "text/csv", "X-Next-Cursor": "c"}, b"a\n")
    )
    download = client.ledger_entries_export_export(format="csv")
    assert (download.read(), download.headers["X-Next-Cursor"], pauses) == (b"a\n", "c", [1])


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_no_name_leads_to_another_route(asking, name):
    told, client, _ = asking()
    with pytest.raises(ValueError, match="names nothing"):
        client.pools_workloads_retire("lab", name)
    assert told.asked == []


def test_a_name_is_one_segment_of_the_path_whatever_it_holds(asking):
    told, client, _ = asking(DONE)
    client.pools_show("../tenants/ä?x=#1")
    assert told.asked[0][1] == "/api/v1/pools/..%2Ftenants%2F%C3%A4%3Fx%3D%231/"


def test_a_service_below_a_path_is_asked_there(asking, scripted):
    told = scripted(DONE)
    Client(f"{told.url}/allocator/api/v1/", "k").pools_show("lab")
    assert told.asked[0][1] == "/allocator/api/v1/pools/lab/"


def test_a_time_is_sent_with_its_offset_and_refused_without(asking):
    told, client, _ = asking(DONE)
    client.pools_decision_show("lab", at=datetime(2027, 1, 5, tzinfo=UTC))
    assert told.asked[0][1].endswith("?at=2027-01-05T00%3A00%3A00%2B00%3A00")
    with pytest.raises(ValueError, match="time zone"):
        client.pools_decision_show("lab", at=datetime(2027, 1, 5))  # noqa: DTZ001 - that is the point


@pytest.mark.parametrize("key", ["", " ", "a b", "clé", "a\nb"])
def test_what_cannot_be_a_key_is_refused_before_it_is_sent(key):
    with pytest.raises(ValueError, match="not an API key") as refused:
        Client("http://localhost", key)
    assert key.strip() == "" or key not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://x", "http://", "https://key@host", "http://h/?key=s3cret"]
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ValueError, match="address") as refused:
        service_address(url)
    assert "s3cret" not in str(refused.value)
