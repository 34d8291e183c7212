"""Backtests in the admin: started by a form, watched, read, cancelled."""

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from allocator_service.allocation.policies import policy_title
from allocator_service.backtests.models import Backtest
from allocator_service.core.models import AuditEntry
from allocator_service.pools.operators import pool_limit_set
from allocator_service.pools.services import pool_create
from tests.backtests import CSV, work
from tests.integration.conftest import NOON, settings
from tests.pages.browser import page_waits

pytestmark = pytest.mark.django_db
START = reverse("admin:backtests_backtest_start")
SERVERS = "2 cpu=4 memory=16"


@pytest.fixture
def olga(client):
    client.force_login(get_user_model().objects.create_superuser("olga"))
    return client


def started(client, content=CSV, **fields):
    form = {"name": "night", "format": "csv", "servers": SERVERS, "seeds": "0",
            "policies": ["static", "drfh"], **fields}  # fmt: skip
    if content is not None:
        form["file"] = SimpleUploadedFile("trace.csv", content.encode())
    return client.post(START, form, follow=True)


def test_a_trace_is_started_watched_and_read(olga):
    page = started(olga)
    assert page.status_code == 200
    backtest = Backtest.objects.get()
    assert (backtest.started_by, backtest.key, backtest.status) == ("olga", None, "queued")
    assert page_waits(page.content.decode())
    assert "default-src 'self';" in page["Content-Security-Policy"]
    assert "script-src" not in page["Content-Security-Policy"]
    work()
    text = olga.get(reverse("admin:backtests_backtest_change", args=[backtest.pk])).content.decode()
    assert not page_waits(text)
    assert 'id="backtest-state"' in text
    assert text.count('class="chart wide"') == 7
    assert text.count("<details>") == 7
    assert "Who gains, who loses?" in text
    listed = olga.get(reverse("admin:backtests_backtest_changelist")).content.decode()
    assert "Each on its own servers, Fair shares on real servers (DRFH)" in listed
    report = olga.get(reverse("admin:backtests_backtest_report", args=[backtest.pk]))
    assert report["Content-Disposition"].startswith("attachment")
    assert policy_title(backtest.spec["policies"][1]["name"]) in report.content.decode()


def test_a_backtest_is_cancelled_by_its_button(olga):
    started(olga)
    backtest = Backtest.objects.get()
    url = reverse("admin:backtests_backtest_cancel", args=[backtest.pk])
    assert olga.get(url).status_code == 403
    for _ in range(2):
        assert "is cancelled" in olga.post(url, follow=True).content.decode()
    backtest.refresh_from_db()
    assert backtest.status == "cancelled"
    rows = AuditEntry.objects.filter(object_id=str(backtest.pk)).order_by("at")
    assert [(row.action, row.actor) for row in rows] == [
        ("backtest.create", "user olga"), ("backtest.cancel", "user olga"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "fields", "said"),
    [
        ("a,b\n", {}, "line 1: the header is"),
        (None, {}, "either a trace or the history"),
        (CSV, {"servers": "[1]"}, "Line 1: expected how many servers first, from 1 to 100000"),
        (CSV, {"servers": "1 cpu=4\n\n0 cpu=4"}, "Line 3: expected how many"),
        (CSV, {"servers": "1 cpu"}, "Line 1: expected name=value"),
        (CSV, {"servers": "1"}, "Line 1: expected name=value"),
        (CSV, {"servers": "1 cpu=1 cpu=2"}, "Line 1: a name is there twice"),
        (CSV, {"servers": "1 cpu=NaN"}, "Line 1: &quot;NaN&quot; is not a quantity"),
        (CSV, {"servers": "1 cpu=-1"}, "Line 1: A quantity is at least 0"),
        (CSV, {"servers": "100000 cpu=1\n1 cpu=2"}, "There are 100001 servers"),
        (CSV, {"servers": ""}, "A trace needs servers"),
        (CSV, {"seeds": "-1"}, "Expected whole numbers"),
        (CSV, {"seeds": "1 1"}, "A seed is named twice"),
        (CSV, {"options": "slots slot=1"}, "Line 1: slots is not among the policies above"),
        (CSV, {"options": "drfh placement=first-fit\ndrfh seed=1"}, "drfh was there before"),
        (CSV, {"options": "drfh"}, "Line 1: expected name=value"),
        (CSV, {"options": "drfh seed=1e999"}, "1e999"),
        (CSV, {"options": "drfh placement=nowhere"}, "nowhere"),
        (CSV, {"jobs_of": "user"}, "A trace as csv takes no tenant"),
        (None, {"begin": "2026-11-20T12:00"}, "A period has a beginning and an end"),
        (None, {"begin": "soon", "end": "2026-11-20T12:00"}, "Enter a valid date/time"),
        (CSV, {"policies": []}, "This field is required"),
    ],
)
def test_what_is_refused_is_told_on_the_form(olga, content, fields, said):
    page = started(olga, content, **fields)
    assert said in page.content.decode()
    assert not Backtest.objects.exists()


def test_options_are_those_of_the_policies_on_their_lines(olga):
    options = "drfh placement=two-choices seed=7\n"
    started(olga, options=options, seeds="1 2", skip_bad_lines="on")
    spec = Backtest.objects.get().spec
    assert spec["policies"] == [
        {"name": "static", "options": {}},
        {"name": "drfh", "options": {"placement": "two-choices", "seed": 7}},
    ]
    assert spec["trace"]["options"] == {"skip_bad_lines": True}


def test_a_history_is_asked_for_with_its_period(olga, fig2):
    end = NOON + timedelta(hours=2)
    page = started(
        olga, None, servers="", pool="lab", begin="2026-11-20T12:00", end=f"{end:%Y-%m-%dT%H:%M}",
    )  # fmt: skip
    assert page.status_code == 200
    assert Backtest.objects.get().spec["history"]["to"] == end.isoformat()
    work()
    assert "holds no usage" in Backtest.objects.get().error["detail"]


def test_an_operator_of_some_pools_neither_reads_nor_starts_nor_cancels_others(olga, fig2, client):
    started(olga, pool="lab", name="of the lab")
    started(olga, name="of no pool")
    work()
    lab, none = Backtest.objects.get(name="of the lab"), Backtest.objects.get(name="of no pool")
    otto = get_user_model().objects.create_user("otto", is_staff=True)
    otto.user_permissions.set(Permission.objects.filter(content_type__app_label="backtests"))
    pool_limit_set(user=otto, pools=[fig2], now=NOON)
    client.force_login(otto)
    listed = client.get(reverse("admin:backtests_backtest_changelist")).content.decode()
    assert "of the lab" in listed
    assert "of no pool" not in listed
    for name, method in (("cancel", "post"), ("report", "get")):
        url = reverse(f"admin:backtests_backtest_{name}", args=[none.pk])
        assert getattr(client, method)(url).status_code == 404
    report = reverse("admin:backtests_backtest_report", args=[lab.pk])
    assert client.get(report).status_code == 200
    assert "This field is required" in started(client).content.decode()
    other = pool_create(slug="other", settings=settings(), now=NOON)
    assert "Select a valid choice" in started(client, pool=other.slug).content.decode()
    started(client, pool="lab", name="by otto")
    assert Backtest.objects.get(name="by otto").started_by == "otto"
