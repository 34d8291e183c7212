"""A run's page explains, proves and verifies its decision; objects show their history from the audit."""

import json
import subprocess
import sys
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.urls import reverse

from allocator_service.allocation.admin import runs
from allocator_service.allocation.models import Allocation, Run
from allocator_service.allocation.policies import policy_choose, policy_title
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.allocation.services import run_request
from allocator_service.core.audit import acting_as
from allocator_service.core.models import AuditEntry
from allocator_service.pools.member_services import member_put
from allocator_service.pools.models import Membership, Server
from allocator_service.pools.operators import pool_limit_set
from allocator_service.pools.server_services import ServerSettings, server_update
from allocator_service.pools.services import pool_create, pool_update
from allocator_service.tenants.models import ApiKey, Tenant
from allocator_service.tenants.people import group_grant_create
from allocator_service.tenants.services import api_key_create
from allocator_service.workloads.reason_texts import OPERATOR, reason_text
from tests import factories
from tests.integration.conftest import NOON, settings, vector
from tests.superuser import as_superuser

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def pages(client):
    client.force_login(get_user_model().objects.create_superuser("operator"))
    return client


@pytest.fixture
def run(fig2):
    return recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)


def of_run(name, run, *more):
    return reverse(f"admin:allocation_run_{name}", args=[run.pk, *more])


def text_of(answer):
    return " ".join(answer.content.decode().split())


def test_a_runs_placements_are_read_a_page_at_a_time(pages, run, monkeypatch):
    assert of_run("placements", run) in text_of(pages.get(of_run("change", run)))
    page = text_of(pages.get(of_run("placements", run)))
    for words in (
        "1 to 2 of 2 placements",
        "analysis",
        ">10</data> tasks",
        "high-memory",
        "high-cpu",
    ):
        assert words in page, words
    monkeypatch.setattr(runs, "PLACEMENTS_A_PAGE", 1)
    page = text_of(pages.get(of_run("placements", run), {"page": "2"}))
    assert "2 to 2 of 2 placements" in page
    assert "high-memory" not in page
    assert '<a href="?page=1">1</a>' in page


def test_the_placements_of_a_run_that_waits_are_not_called_none(pages, run):
    waits = run_request(pool=run.pool, reason="", now=NOON)
    answer = pages.get(of_run("placements", waits), follow=True)
    assert "it has no decision to verify" in text_of(answer)


def test_a_run_that_placed_nothing_says_so(pages, fig2):
    pool_update(
        pool=fig2,
        settings=settings(policy=policy_choose("drf", "divisible", {})),
        version=None,
        now=NOON,
    )
    run = recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    assert "its policy sees the pool as one" in text_of(pages.get(of_run("placements", run)))


def test_a_runs_page_says_in_units_what_it_came_to(pages, run):
    page = text_of(pages.get(of_run("change", run)))
    for words in (
        "20 November 2026, 12:00:00 UTC</time> until now",
        "utilization of cpu: 85.71 %",
        "Fair shares on real servers (DRFH), divisible",
        "jain index: 1",
        " s</div>",
        reverse("admin:pools_pool_overview", args=[run.pool_id]),
        of_run("proof", run),
        of_run("verification", run),
    ):
        assert words in page, words


def test_a_tenants_part_is_explained_with_what_would_give_it_more(pages, run):
    page = pages.get(of_run("explanation", run, "u1"))
    content = text_of(page)
    explanation = page.context["explanation"]
    assert explanation.sentence[:40] in content
    assert explanation.counterfactuals
    for counterfactual in explanation.counterfactuals:
        assert counterfactual.tasks_after > counterfactual.tasks_before
        assert counterfactual.words in content
    assert "per GiB" in content
    (reason,) = Allocation.objects.filter(run=run, tenant__slug="u1").values_list("limited_by")
    assert reason_text(*reason, OPERATOR) in content
    assert pages.get(of_run("explanation", run, "nobody")).status_code == 404


def test_the_proof_that_is_downloaded_verifies_elsewhere(pages, run, tmp_path):
    answer = pages.get(of_run("proof", run))
    assert answer["Content-Disposition"] == f'attachment; filename="proof-{run.pk}.json"'
    document = json.loads(answer.content)
    assert (document["run"], document["pool"]) == (str(run.pk), "lab")
    file = tmp_path / "proof.json"
    file.write_bytes(answer.content)
    command = [sys.executable, "-m", "policies", "verify", str(file)]
    assert subprocess.run(command, check=False).returncode == 0


def test_a_decision_is_verified_by_a_button_and_a_false_one_found(pages, run):
    url = of_run("verification", run)
    assert pages.get(url).status_code == 405
    page = pages.post(url)
    assert page.context["verification"]["valid"] is True
    assert "Every check holds" in text_of(page)
    as_superuser("UPDATE run_allocation SET tasks = tasks * 2 WHERE position = 0")
    page = pages.post(url)
    assert page.context["verification"]["valid"] is False
    assert "The stored decision is not valid." in text_of(page)


@pytest.mark.parametrize("name", ["explanation", "proof", "verification"])
def test_a_run_that_decided_nothing_says_so(pages, fig2, name):
    failed = Run.objects.create(
        pool=fig2, status="failed", error={"code": "x", "detail": "It broke."}, created_at=NOON
    )
    more = ["u1"] if name == "explanation" else []
    ask = pages.post if name == "verification" else pages.get
    page = ask(of_run(name, failed, *more), follow=True)
    assert "run.not_succeeded" in text_of(page)
    assert "It broke. (x)" in text_of(page)
    assert "Download proof" not in text_of(page)


def test_a_pruned_run_still_says_who_got_what(pages, run):
    as_superuser("UPDATE run_snapshot SET document = NULL")
    page = pages.get(of_run("change", run))
    assert "not known" in text_of(page)
    (u1, _) = page.context["shares"].rows
    assert u1.contributed == u1.entitled == [None, None]
    assert u1.allocated == pytest.approx([2, 10])
    assert "run.pruned" in text_of(pages.get(of_run("proof", run), follow=True))


def test_who_may_not_see_runs_gets_neither_explanation_nor_proof(client, run):
    user = get_user_model().objects.create_user("auditor", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_entry"))
    client.force_login(user)
    assert client.get(of_run("explanation", run, "u1")).status_code == 403
    assert client.get(of_run("proof", run)).status_code == 403
    assert client.post(of_run("verification", run)).status_code == 403


def history(pages, model, instance):
    url = reverse(f"admin:pools_{model}_history", args=[instance.pk])
    answer = pages.get(url)
    return answer, [
        (done.actor, done.action, done.reason, [vars(each) for each in done.differences])
        for done in answer.context["done"]
    ]


def test_the_history_of_an_object_has_who_why_and_what_became_different(pages, fig2):
    server = Server.objects.get(name="high-cpu")
    with acting_as("key ops", reason="more <memory>"):
        changed = ServerSettings("high-cpu", vector(12, 4), {})
        server_update(server=server, settings=changed, version=None, now=NOON)
    answer, done = history(pages, "server", server)
    assert done[0] == ("key ops", "server.update", "more <memory>", [
        {"field": "capacity", "before": "12, 2", "after": "12, 4"},
    ])  # fmt: skip
    # The servers were contributed by one request, which the pool's entry tells of.
    assert [action for _, action, _, _ in done[1:]] == ["server.contribute"]
    page = text_of(answer)
    assert "more &lt;memory&gt;" in page
    assert "20 November 2026, 12:00:00 UTC" in page


def test_an_object_of_a_bulk_request_shows_itself_and_not_how_many_there_were(pages, fig2):
    """What it was made as, whatever was changed since."""
    server = Server.objects.get(name="high-cpu")
    changed = ServerSettings("higher-cpu", vector(12, 4), {})
    server_update(server=server, settings=changed, version=None, now=NOON)
    _, [(_, _, _, _), (_, action, _, made)] = history(pages, "server", server)
    assert action == "server.contribute"
    fields = {each["field"]: (each["before"], each["after"]) for each in made}
    assert fields["name"] == (None, "high-cpu")
    assert fields["capacity"] == (None, "12, 2")
    assert fields["state"] == (None, "active")
    assert "servers" not in fields


def test_the_history_of_a_member_has_its_weights(pages, fig2):
    member = Membership.objects.get(tenant__slug="u1")
    with acting_as("user olga", reason="bought a rack"):
        member_put(
            pool=fig2, tenant=member.tenant, weight=3, best_effort=False, version=1, now=NOON
        )
    _, done = history(pages, "membership", member)
    assert ("user olga", "bought a rack") in [(actor, why) for actor, _, why, _ in done]


def made_fields(pages, url):
    """Return the fields of the newest entry in a history, before and after."""
    done = pages.get(url).context["done"]
    return {each.field: (each.before, each.after) for each in done[0].differences}


def test_a_history_has_names_and_no_keys_of_objects(pages, fig2, django_assert_max_num_queries):
    tenant = Tenant.objects.get(slug="u1")
    group = factories.group(fig2, "science")
    key = api_key_create(
        name="reader", scope="group", tenant=None, pool=fig2.slug, group=group.pk, access="read",
        expires_at=NOON + timedelta(days=1), now=NOON,
    ).key  # fmt: skip
    url = reverse("admin:tenants_apikey_history", args=[key.pk])
    assert made_fields(pages, url)["group"] == (None, "science")
    grant = group_grant_create(group="/a", tenant=tenant, now=NOON)
    url = reverse("admin:tenants_groupgrant_history", args=[grant.pk])
    assert made_fields(pages, url)["tenant"] == (None, "u1")
    server = Server.objects.get(name="high-cpu")
    url = reverse("admin:pools_server_history", args=[server.pk])
    with django_assert_max_num_queries(10):
        made = made_fields(pages, url)
    assert made["pool"] == (None, str(fig2))
    assert made["contributed by"] == (None, str(server.contributed_by))
    url = reverse("admin:pools_pool_history", args=[fig2.pk])
    ends = [
        each.after
        for done in pages.get(url).context["done"]
        for each in done.differences
        if each.field in ("first", "last")
    ]
    assert "high-cpu" in ends
    assert not [text for text in ends if "id:" in text]


def test_the_key_of_an_object_that_is_gone_stays_in_a_history(pages, fig2):
    server = Server.objects.get(name="high-cpu")
    AuditEntry.objects.create(
        at=NOON, actor="x", action="server.update", object_type="server", object_id=server.pk,
        object_name="high-cpu", before={"contributed_by_id": 999_999}, after={"contributed_by_id": "x"},
    )  # fmt: skip
    url = reverse("admin:pools_server_history", args=[server.pk])
    assert made_fields(pages, url)["contributed by"] == ("999999", "x")


def test_options_with_seconds_are_durations(pages, fig2):
    pool_update(
        pool=fig2,
        settings=settings(policy=policy_choose("tda", None, {"period_seconds": 900})),
        version=None,
        now=NOON,
    )
    made = made_fields(pages, reverse("admin:pools_pool_history", args=[fig2.pk]))
    assert made["policy options"][1].startswith("period 15 minutes")
    assert made["policy name"][1] == "Taking turns (TDA)"


def test_who_may_not_see_an_object_does_not_see_its_history(client, fig2):
    user = get_user_model().objects.create_user("auditor", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_entry"))
    client.force_login(user)
    server = Server.objects.first()
    url = reverse("admin:pools_server_history", args=[server.pk])
    assert client.get(url).status_code == 403


def test_the_list_of_keys_says_when_each_was_last_used(pages, fig2):
    api_key_create(
        scope="operator", name="ops", tenant=None, expires_at=NOON.replace(year=2100), now=NOON
    )
    ApiKey.objects.update(last_used_at=NOON)
    page = text_of(pages.get(reverse("admin:tenants_apikey_changelist")))
    assert "20 Nov 2026, 12:00:00 UTC</time>" in page


def test_a_decision_is_read_beside_other_policies(pages, run):
    """Figure 2 of DRFH: ten tasks each, as with servers of one's own; 11.67 if they were one server."""
    link = reverse("admin:backtests_of_run", args=[run.pk])
    assert link in pages.get(reverse("admin:allocation_run_change", args=[run.pk])).content.decode()
    shown = pages.get(link).context
    table = shown["answers"][0].table
    at = {policy: place for place, policy in enumerate(table.header)}
    drfh, static, drf = map(policy_title, ("drfh", "static", "drf"))
    assert list(at)[1] == drfh
    rows = [(row[0], *(row[at[name]] for name in (drfh, static, drf))) for row in table.rows]
    assert sorted(rows) == [("u1", "10", "10", "11.67"), ("u2", "10", "10", "11.67")]
    used = {row[0]: row[1] for row in shown["answers"][1].table.rows}
    assert (used[drfh], used[drf]) == ("85.7\N{NO-BREAK SPACE}%", "100.0\N{NO-BREAK SPACE}%")
    assert shown["failed"] == []
    as_superuser("UPDATE run_snapshot SET document = NULL")
    page = pages.get(link, follow=True)
    assert page.redirect_chain[0][0] == reverse("admin:allocation_run_change", args=[run.pk])
    assert "run.pruned" in page.content.decode()


def test_whoever_may_not_see_a_run_sees_no_comparison_of_it(client, run):
    """Neither without the permission, nor limited to another pool."""
    link = reverse("admin:backtests_of_run", args=[run.pk])
    user = get_user_model().objects.create_user("amy", password="x", is_staff=True)
    client.force_login(user)
    assert client.get(link).status_code == 403
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_run", "view_backtest"]))
    assert client.get(link).status_code == 200
    quiet = pool_create(slug="quiet", settings=settings(), now=NOON)
    pool_limit_set(user=user, pools=[quiet], now=NOON)
    assert client.get(link).status_code == 404


@pytest.mark.parametrize(("mode", "marked"), [("divisible", False), ("indivisible", True)])
def test_divisible_shares_beside_whole_tasks_are_marked(fig2, pages, mode, marked):
    fig2.policy_mode = mode
    fig2.save()
    run = recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    page = text_of(pages.get(reverse("admin:backtests_of_run", args=[run.pk])))
    label = f"{policy_title('ceei')} (divisible shares; not whole tasks)"
    assert (label in page) == marked
    assert f"{policy_title('drf')} (divisible shares" not in page
