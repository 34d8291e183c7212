"""A tenant's backtests in a browser: how far, and the policies side by side."""

import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from allocator_service.backtests.models import Backtest
from allocator_service.core.models import AuditEntry
from policies.simulation import POLICIES
from tests.backtests import CSV, asked, work
from tests.pages.browser import TOKEN, browser_of, page_waits
from tests.pages.people import person_of

pytestmark = pytest.mark.django_db
ALL = "/api/v1/backtests/"
START = "/my/backtests/start/"


def test_a_backtest_is_watched_and_read(world):
    body = asked(CSV.replace("physics", "<b>&"), name="<i>last night")
    made = world.as_ada.post(ALL, body).json()["id"]
    ada = browser_of(world.as_ada)
    assert "waits for a worker: 0 %" in ada.text("/my/backtests/")
    assert page_waits(ada.text(f"/my/backtests/{made}/"))
    work()
    text = ada.text(f"/my/backtests/{made}/")
    assert not page_waits(text)
    assert text.count('class="chart wide"') == text.count("<details>") == 7
    assert "<b>" not in text
    assert "<i>" not in text
    assert "&lt;b&gt;&amp;" in text
    assert "<script" not in text
    assert 'style="' not in text


def test_the_form_folds_what_few_need_unless_it_was_filled_in(world):
    ada = browser_of(world.as_ada)
    page = ada.text(START)
    folds = r'<details class="fold"( open)?><summary>([^<]+)</summary>(.*?)</details>'
    closed = re.findall(folds, page, re.S)
    assert [(is_open, title) for is_open, title, _ in closed] == [
        ("", "More about the trace"), ("", "Options of policies, and seeds"),
    ]  # fmt: skip
    inside = "".join(text for *_, text in closed)
    for name in ("name", "pool", "begin", "end", "file", "format", "servers", "policies"):
        assert f'name="{name}"' in page
        assert f'name="{name}"' not in inside
    answer = ada.post(START, START, seeds="many", policies="drf", format="csv")
    opened = re.findall(folds, answer.content.decode(), re.S)
    assert [is_open for is_open, *_ in opened] == ["", " open"]


def test_one_that_failed_says_why(world):
    body = asked("tenant,submit,duration,demand.cpu,demand.memory\nt,0,1,99,1\n")
    made = world.as_ada.post(ALL, body).json()["id"]
    work()
    ada = browser_of(world.as_ada)
    assert "No task fits on any server" in ada.text(f"/my/backtests/{made}/")
    assert "It failed." in ada.text("/my/backtests/")


def test_nobody_else_sees_it(world):
    made = world.as_ada.post(ALL, asked(name="adas own")).json()["id"]
    bob = browser_of(world.as_bob)
    assert "There is none yet" in bob.text("/my/backtests/")
    assert "adas own" not in bob.text("/my/backtests/")
    assert bob.get(f"/my/backtests/{made}/").status_code == 404


def started(browser, content=CSV, **fields):
    """The answer to the form, filled in for a trace on two servers unless told otherwise."""
    filled = {"name": "night", "format": "csv", "servers": "2 cpu=4 memory=16", "seeds": "0",
              "policies": ["static", "drfh"], **fields}  # fmt: skip
    if content is not None:
        filled["file"] = SimpleUploadedFile("trace.csv", content.encode())
    return browser.post(START, START, **filled)


def test_a_trace_is_sent_by_the_form(world):
    """It is the key's, as if it had asked over the API."""
    ada = browser_of(world.as_ada)
    answer = started(ada)
    made = Backtest.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, f"/my/backtests/{made.pk}/")
    assert (made.tenant, made.key.tenant, made.started_by) == (world.ada, world.ada, "")
    assert world.as_ada.get(f"{ALL}{made.pk}/").json()["name"] == "night"
    assert world.as_bob.get(f"{ALL}{made.pk}/").status_code == 404
    work()
    assert ada.text(answer["Location"]).count('class="chart wide"') == 7


def test_the_form_names_policies_as_every_page_does(world):
    form = browser_of(world.as_ada).text(START)
    named = dict(re.findall(r'name="policies" value="([^"]*)"[^>]*>\s*([^<]*?)\s*</label>', form))
    assert named.keys() == POLICIES.keys()
    assert named["drfh"] == "Fair shares on real servers (DRFH)"
    assert not set(named.values()) & set(named)


def test_of_a_pool_that_hides_its_members_a_tenant_is_given_its_own_use(world):
    """The pools of the form are the tenant's own; the ledger is read as for its key."""
    ada = browser_of(world.as_ada)
    assert re.findall('<option value="([a-z]*)"', ada.text(START))[:2] == ["", "lab"]
    assert 'value="other"' not in ada.text(START)
    period = {"begin": "2026-11-20T12:00", "end": "2026-11-20T14:00", "servers": ""}
    assert "Select a valid choice" in refused(started(ada, None, pool="other", **period))
    assert started(ada, None, pool="lab", **period).status_code == 302
    made = Backtest.objects.get()
    assert (made.pool, made.tenant) == (world.lab, world.ada)
    assert made.spec["history"]["from"] == "2026-11-20T12:00:00+00:00"
    assert made.spec["names"].keys() == {"ada", "bob"}
    assert made.spec["names"]["bob"].startswith("member-")


def test_the_size_of_a_node_divides_the_jobs_of_an_swf_trace(world):
    """Servers have 4 CPUs, so that a job of 6 processors fits on two of them and on none alone."""
    content = "1 0 -1 600 6 -1 -1 -1 -1 -1 -1 7 1 -1 -1 -1 -1 -1\n"
    ada = browser_of(world.as_ada)
    fields = {"format": "swf", "servers": "2 cpu=4", "policies": ["drfh"]}
    answer = started(ada, content, processors_per_node="4", **fields)
    assert answer.status_code == 302, answer.content
    work()
    backtest = Backtest.objects.get()
    assert backtest.status == "succeeded"
    assert world.as_ada.get(f"{ALL}{backtest.pk}/results/").json()["input"]["fits_nowhere"] == {
        "tasks": 0,
        "tenants": [],
    }
    other = {**fields, "format": "csv"}
    assert 'id="id_processors_per_node_error"' in refused(
        started(ada, processors_per_node="4", **other)
    )


def refused(answer):
    assert answer.status_code in (409, 413, 422), answer.content
    return TOKEN.sub("", answer.content.decode())


@pytest.mark.parametrize(
    ("content", "fields", "field", "said"),
    [
        ("a,b\n", {}, "file", "line 1: the header is"),
        (None, {}, "file", "either a trace or the history"),
        (CSV, {"servers": "", "pool": "lab"}, "servers", "are not yours to read"),
        (CSV, {"servers": "4"}, "servers", "Line 1: expected name=value"),
        (CSV, {"seeds": "1 1"}, "seeds", "A seed is named twice"),
        (CSV, {"options": "drfh placement=nowhere"}, "options", "nowhere"),
        (CSV, {"policies": []}, "policies", "This field is required"),
        (CSV, {"format": "swf", "jobs_of": "<b>"}, "jobs_of", "&lt;b&gt;"),
        (None, {"begin": "2026-11-20T12:00"}, "end", "A period has a beginning and an end"),
        (
            None,
            {"begin": "0001-01-01T00:00", "end": "2026-11-20T12:00", "servers": "", "pool": "lab"},
            "begin",
            "`from` must be between 2000 and 2200.",
        ),
    ],
)
def test_what_is_wrong_stands_beside_its_field(world, content, fields, field, said):
    page = refused(started(browser_of(world.as_ada), content, **fields))
    part = page.partition(f'<ul class="errorlist" id="id_{field}_error">')[2]
    assert said in part.partition("</ul>")[0], page
    assert "Nothing was started." in page
    assert ("choose the file again" in page) == (content is not None)
    assert f'aria-describedby="id_{field}_helptext id_{field}_error"' in page
    assert not Backtest.objects.exists()


def test_a_form_from_elsewhere_starts_and_cancels_nothing(world):
    made = world.as_ada.post(ALL, asked()).json()["id"]
    ada = browser_of(world.as_ada)
    for path in (START, f"/my/backtests/{made}/cancel/"):
        assert ada.client.post(path, {"csrfmiddlewaretoken": "x" * 64}).status_code == 403
    assert Backtest.objects.get().status == "queued"


def test_a_backtest_is_cancelled_by_its_button(world):
    ada = browser_of(world.as_ada)
    page = started(ada)["Location"]
    for _ in range(2):
        assert ada.post(f"{page}cancel/", "/my/")["Location"] == page
    assert "It was cancelled." in ada.text(page)
    assert "<button>Cancel</button>" not in ada.text(page)
    page = started(ada)["Location"]
    assert "<button>Cancel</button>" in ada.text(page)
    work()
    late = ada.post(f"{page}cancel/", "/my/")
    assert (late.status_code, b"there is nothing to cancel" in late.content) == (409, True)


@pytest.mark.usefixtures("people_sign_in")
def test_a_person_has_three_of_their_own_open_and_cancels_the_tenants(world):
    """What a person starts is no key's; keys and people of the tenant count each for themselves."""
    key, person = browser_of(world.as_ada), person_of(world.ada)
    for browser in (key, person):
        assert [started(browser).status_code for _ in range(4)] == [302, 302, 302, 409]
    assert "3 of your backtests are queued or running" in refused(started(person))
    own = Backtest.objects.filter(key=None, tenant=world.ada)
    assert {each.started_by for each in own} == {own[0].started_by} != {""}
    assert key.get(f"/my/backtests/{own[0].pk}/").status_code == 404
    assert f"by {own[0].started_by}" in person.text("/my/backtests/")
    keys = Backtest.objects.filter(key__tenant=world.ada).first()
    assert person.post(f"/my/backtests/{keys.pk}/cancel/", "/my/").status_code == 302
    keys.refresh_from_db()
    assert keys.status == "cancelled"
    row = AuditEntry.objects.get(action="backtest.cancel")
    assert (row.object_id, row.actor) == (str(keys.pk), f"user {own[0].started_by}")
    assert started(key).status_code == 302
    assert started(person).status_code == 409
    stranger = person_of(world.bob)
    assert "There is none yet" in stranger.text("/my/backtests/")
    assert stranger.post(f"/my/backtests/{own[0].pk}/cancel/", "/my/").status_code == 404
