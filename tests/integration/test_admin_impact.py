"""Before weights, policies or servers change, the admin says what that does to whom."""

import html
import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from allocator_service.allocation.what_if.impact import changed_tenants, shortened
from allocator_service.core.clock import utc_now
from allocator_service.core.display import instant_text, percent_text
from allocator_service.core.models import AuditEntry, Event
from allocator_service.pools.group_services import GroupDraft, GroupSettings, groups_create
from allocator_service.pools.member_services import member_put
from allocator_service.pools.models import Group, Membership, Pool, Server
from allocator_service.tenants.models import Tenant
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests import factories
from tests.factories import vector
from tests.form_fields import untouched
from tests.integration.conftest import NOON

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def operator(client):
    client.force_login(get_user_model().objects.create_superuser("olga"))
    return client


def form_of(response):
    """The fields of a change page as a browser would send them back."""
    return untouched(response.context["adminform"].form)


def hidden(response):
    return dict(response.context["hidden"])


def test_a_new_weight_is_shown_before_it_is_saved(fig2, operator):
    member = Membership.objects.get(pool=fig2, tenant__slug="u1")
    url = reverse("admin:pools_membership_change", args=[member.pk])
    asked = operator.post(url, form_of(operator.get(url)) | {"weight": "3", "tier": "0"})
    (impact,) = asked.context["impacts"]
    assert [row.tenant for row in impact.tenants] == ["u2"]
    assert (impact.hit, impact.gain) == (1, 1)
    assert [row.tenant for row in impact.winners] == ["u1"]
    (more,), (fewer,) = impact.winners[0].workloads, impact.tenants[0].workloads
    assert more.after > more.before
    page = asked.content.decode()
    assert [(each.field, each.before, each.after) for each in asked.context["differences"]] == [
        ("Weight", "1", "3")
    ]
    assert "Weight: <del>1</del> → <ins>3</ins>" in page
    assert page.index("1 tenant would run fewer tasks") < page.index("1 tenant would run more")
    assert fewer.before == pytest.approx(10)
    assert member.terms.get(end=None).weight == 1

    confirmed = {"confirmed": "yes", "reason": "bought a third rack"}
    saved = operator.post(url, hidden(asked) | confirmed)
    assert saved.status_code == 302
    assert member.terms.get(end=None).weight == 3
    assert AuditEntry.objects.order_by("-id").first().reason == "bought a third rack"


@pytest.fixture
def groups(fig2, tenant):
    """u1 in a, u2 in b."""
    drafts = [GroupDraft(slug, GroupSettings(slug.upper(), None)) for slug in ("a", "b")]
    made = groups_create(pool=fig2, drafts=drafts, now=NOON)
    for slug, group in (("u1", "a"), ("u2", "b")):
        terms = {"weight": Decimal(1), "best_effort": False, "version": 1, "group": group}
        member_put(pool=fig2, tenant=tenant(slug), now=NOON, **terms)
    return made


def test_another_weight_of_a_group_is_shown_before_it_is_saved(groups, operator):
    url = reverse("admin:pools_group_change", args=[groups[0].pk])
    asked = operator.post(url, form_of(operator.get(url)) | {"weight": "3"})
    (impact,) = asked.context["impacts"]
    assert (impact.unknown, [row.tenant for row in impact.tenants]) == ("", ["u2"])
    assert groups[0].terms.get(end=None).weight == 1
    saved = operator.post(url, hidden(asked) | {"confirmed": "yes", "reason": "bought a rack"})
    assert saved.status_code == 302
    assert groups[0].terms.get(end=None).weight == 3
    assert AuditEntry.objects.get(action="group.update").reason == "bought a rack"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"limit": "cpu=1;; 2027-02-01T00:00Z; 2027-01-01T00:00Z"}, "`to` must be later than"),
        ({"limit": "cpu=1;;; 9999-12-31T23:59Z"}, "`to` must be between 2000 and 2200."),
        ({"guarantee": "cpu=1;; 1999-12-31T23:59Z"}, "`from` must be between 2000 and 2200."),
        ({"limit": "cpu=1\n" * 101}, "Expected at most 100 entries, got 101."),
        ({"guarantee": "cpu=1\n" * 101}, "Expected at most 100 entries, got 101."),
        ({"limit": "tpu=1"}, "The pool has no resource"),
        ({"limit": "cpu=1", "guarantee": "cpu=2"}, "guarantee"),
        ({"parent": "none"}, "The pool has no group"),
        ({"limit": "cpu=\uff11\uff12"}, "Limit 1: expected a number"),
        ({"limit": "cpu=5;; 9999-12-31T23:59-05:00"}, "Limit 1: expected a time"),
        ({"guarantee": "cpu=5;; 0001-01-01T00:00+05:00"}, "Guarantee 1: expected a time"),
    ],
)
@pytest.mark.parametrize("confirmed", [{}, {"confirmed": "yes"}])
def test_a_change_that_the_service_refuses_is_refused_before_its_impact(
    groups, operator, fields, sentence, confirmed
):
    member = Membership.objects.get(tenant__slug="u1")
    pages = [reverse("admin:pools_group_change", args=[groups[0].pk])]
    if "parent" not in fields:
        pages.append(reverse("admin:pools_membership_change", args=[member.pk]))
    for url in pages:
        answer = operator.post(url, form_of(operator.get(url)) | fields | confirmed)
        assert answer.status_code == 200
        assert sentence in html.unescape(answer.content.decode())
        assert "impacts" not in answer.context
    assert groups[0].terms.get().limit == []
    assert not AuditEntry.objects.filter(action="group.update").exists()


def test_the_form_shows_at_the_changed_field_that_a_limit_is_below_guarantees(groups, operator):
    urls = [reverse("admin:pools_group_change", args=[group.pk]) for group in groups]
    for url, amounts in zip(urls, ({"limit": "cpu=3"}, {"guarantee": "cpu=4"}), strict=True):
        sent = form_of(operator.get(url)) | amounts | {"confirmed": "yes"}
        assert operator.post(url, sent).status_code == 302
    answer = operator.post(urls[1], form_of(operator.get(urls[1])) | {"parent": "a"})
    errors = answer.context["adminform"].form.errors
    assert list(errors) == ["parent"]
    assert "It must be at least cpu=4" in str(errors["parent"])


def test_an_impact_that_is_only_shown_changes_nothing(groups, fig2, operator):
    url = reverse("admin:pools_group_change", args=[groups[0].pk])
    fig2.refresh_from_db()
    before = fig2.generation, fig2.version, AuditEntry.objects.count(), Event.objects.count()
    asked = operator.post(url, form_of(operator.get(url)) | {"limit": "cpu=1", "name": "Other"})
    assert len(asked.context["impacts"]) == 1
    fig2.refresh_from_db()
    assert before == (
        fig2.generation, fig2.version, AuditEntry.objects.count(), Event.objects.count(),
    )  # fmt: skip
    assert Group.objects.get(pk=groups[0].pk).name == "A"


def test_a_guarantee_that_cannot_be_met_is_shown_before_it_is_saved(groups, operator):
    """Fig. 2 has 14 CPUs, of which b is guaranteed twice as many."""
    url = reverse("admin:pools_group_change", args=[groups[1].pk])
    asked = operator.post(url, form_of(operator.get(url)) | {"guarantee": "cpu=28"})
    (impact,) = asked.context["impacts"]
    (sentence,) = impact.unmet
    assert sentence.startswith("The guarantee of group b, 28 ")
    assert "is met to " in sentence
    assert f'<li class="warning">{sentence}</li>' in asked.content.decode()
    met = operator.post(url, form_of(operator.get(url)) | {"guarantee": "cpu=1"})
    assert met.context["impacts"][0].unmet == []
    assert "Guarantees that are not met" not in met.content.decode()


def test_the_preview_warns_of_guarantees_as_the_api_does(groups, fig2, operator):
    """28 of 14 CPUs now, and ten times as many from a later day on."""
    begins = (utc_now() + timedelta(days=40)).replace(hour=0, minute=0, second=0, microsecond=0)
    rows = [
        {"where": {}, "amount": {"cpu": amount}, "from": start}
        for amount, start in ((28, None), (280, begins.isoformat()))
    ]
    lines = f"cpu=28\ncpu=280;;{begins.isoformat()}"
    of_group = reverse("admin:pools_group_change", args=[groups[1].pk])
    member = Membership.objects.get(tenant__slug="u2")
    of_member = reverse("admin:pools_membership_change", args=[member.pk])
    api = factories.client()
    group = "/api/v1/pools/lab/groups/b/"
    put = {"weight": 1, "group": "b"}
    for url, send, path, body in (
        (of_group, api.patch, group, {}),
        (of_member, api.put, "/api/v1/pools/lab/members/u2/", put),
    ):
        asked = operator.post(url, form_of(operator.get(url)) | {"guarantee": lines})
        (impact,) = asked.context["impacts"]
        answer = send(path, {**body, "guarantee": rows}, If_Match=api.get(path)["ETag"])
        warnings = answer.json()["warnings"]
        assert [*impact.unmet, *impact.unchecked] == [each["detail"] for each in warnings]
        assert any(f"From {instant_text(begins)} on, " in each for each in impact.unmet)
        for sentence in impact.unmet:
            assert f'<li class="warning">{sentence}</li>' in asked.content.decode()
        send(path, {**body, "guarantee": []}, If_Match=api.get(path)["ETag"])


def test_the_preview_states_which_later_guarantees_were_not_computed(groups, operator):
    url = reverse("admin:pools_group_change", args=[groups[1].pk])
    days = [(utc_now() + timedelta(days=days)).date().isoformat() for days in (10, 20, 30, 40)]
    lines = "\n".join(f"cpu=1;;{day}T00:00Z" for day in days)
    asked = operator.post(url, form_of(operator.get(url)) | {"guarantee": lines})
    (impact,) = asked.context["impacts"]
    assert impact.unmet == []
    (sentence,) = impact.unchecked
    assert "was not computed: a change is computed at 3 later instants." in sentence
    assert f'<li class="warning">{sentence}</li>' in asked.content.decode()


def test_own_servers_of_a_group_are_shown_before_they_are_saved(groups, fig2, operator):
    """Both servers are those of u1, which then keeps all that it would run alone."""
    Server.objects.filter(pool=fig2).update(contributed_by=Tenant.objects.get(slug="u1"))
    url = reverse("admin:pools_group_change", args=[groups[0].pk])
    asked = operator.post(url, form_of(operator.get(url)) | {"own_servers": "yes"})
    (impact,) = asked.context["impacts"]
    assert impact.unknown == ""
    assert [row.tenant for row in impact.winners] == ["u1"]
    assert [row.tenant for row in impact.tenants] == ["u2"]
    assert groups[0].terms.get(end=None).own_servers == "inherit"


def test_a_group_is_created_moved_and_retired_in_the_admin(groups, fig2, operator):
    add = reverse("admin:pools_group_add")
    sent = form_of(operator.get(add)) | {"pool": fig2.pk, "slug": "c", "name": "C", "parent": "a"}
    assert operator.post(add, sent).status_code == 302
    new = Group.objects.get(slug="c")
    assert new.terms.get().parent == groups[0]
    listed = operator.get(reverse("admin:pools_group_changelist")).content.decode()
    assert '<td class="field-parent">a</td>' in listed
    url = reverse("admin:pools_group_change", args=[groups[0].pk])
    loop = operator.post(url, form_of(operator.get(url)) | {"parent": "c", "confirmed": "yes"})
    assert "lead back to it" in loop.content.decode()
    action = {"action": "retire", "reason": "merged",
              "_selected_action": [str(new.pk), str(groups[0].pk)]}  # fmt: skip
    page = operator.post(reverse("admin:pools_group_changelist"), action, follow=True)
    assert "The group has 1 member and " in page.content.decode()
    new.refresh_from_db()
    assert new.retired_at is not None
    assert Group.objects.get(pk=groups[0].pk).retired_at is None
    shown = operator.get(reverse("admin:pools_group_change", args=[new.pk]))
    assert b'name="_save"' not in shown.content


def test_a_member_is_moved_in_the_admin_and_the_effect_is_shown(groups, fig2, operator):
    member = Membership.objects.get(pool=fig2, tenant__slug="u1")
    url = reverse("admin:pools_membership_change", args=[member.pk])
    page = operator.get(url)
    assert form_of(page)["group"] == "a"
    unknown = operator.post(url, form_of(page) | {"group": "none", "confirmed": "yes"})
    assert "has no group" in unknown.content.decode()
    asked = operator.post(url, form_of(page) | {"group": "b", "tier": "2"})
    (impact,) = asked.context["impacts"]
    assert (impact.unknown, [row.tenant for row in impact.tenants]) == ("", ["u1"])
    (row,) = impact.tenants
    shares = [percent_text(each) for each in (row.share_before, row.share_after)]
    page = re.sub("<[^>]+>", "", asked.content.decode())
    assert " → ".join(shares) in page
    operator.post(url, hidden(asked) | {"confirmed": "yes", "reason": "reorganised"})
    terms = member.terms.get(end=None)
    assert (terms.group, terms.tier) == (groups[1], 2)
    listed = operator.get(reverse("admin:pools_membership_changelist")).content.decode()
    assert '<td class="field-group">b</td><td class="field-tier">2</td>' in listed


def test_another_policy_is_shown_before_it_is_saved(fig2, operator):
    url = reverse("admin:pools_pool_change", args=[fig2.pk])
    sent = form_of(operator.get(url)) | {"policy_name": "drf", "policy_mode": ""}
    sent["resources"] = sent["resources"].replace("\n", "\r\n")  # as browsers send it
    asked = operator.post(url, sent)
    (impact,) = asked.context["impacts"]
    assert impact.subject == "policy"
    titles = ("Fair shares on real servers (DRFH)", "Fair shares of one big server (DRF)")
    policy = next(each for each in asked.context["differences"] if each.field == "Policy")
    assert (policy.before, policy.after) == titles
    assert "Resources" not in [each.field for each in asked.context["differences"]]
    assert (impact.hit, impact.gain) == (0, 2)
    assert Pool.objects.get(pk=fig2.pk).policy_name == "drfh"
    operator.post(url, hidden(asked) | {"confirmed": "yes", "reason": "trial"})
    assert Pool.objects.get(pk=fig2.pk).policy_name == "drf"


def test_what_another_policy_does_not_use_is_shown_before_it_is_dropped(fig2, operator):
    options = {"placement": "first-fit"}
    Pool.objects.filter(pk=fig2.pk).update(policy_mode="indivisible", policy_options=options)
    url = reverse("admin:pools_pool_change", args=[fig2.pk])
    sent = form_of(operator.get(url)) | {"policy_name": "ceei", "policy_mode": ""}
    asked = operator.post(url, sent)
    shown = [(each.field, each.before, each.after) for each in asked.context["differences"]]
    assert ("Mode", "indivisible", "not used") in shown
    assert ("Placement", "first-fit", "not used") in shown


def test_what_changes_no_decision_is_saved_at_once(fig2, operator):
    url = reverse("admin:pools_pool_change", args=[fig2.pk])
    sent = form_of(operator.get(url)) | {"name": "Another name"}
    assert operator.post(url, sent).status_code == 302
    assert Pool.objects.get(pk=fig2.pk).name == "Another name"


def test_a_form_with_a_mistake_shows_the_mistake_and_no_impact(fig2, operator):
    url = reverse("admin:pools_pool_change", args=[fig2.pk])
    sent = form_of(operator.get(url)) | {"policy_name": "ceei", "policy_mode": "indivisible"}
    page = operator.post(url, sent)
    assert "has no mode" in page.content.decode()
    assert "impacts" not in page.context


def test_draining_is_shown_before_it_is_done(fig2, operator):
    server = Server.objects.get(name="high-cpu")
    url = reverse("admin:pools_server_changelist")
    sent = {"action": "drain", "_selected_action": str(server.pk)}
    asked = operator.post(url, sent)
    assert asked.context["impacts"][0].hit == 2
    server.refresh_from_db()
    assert server.state == "active"
    operator.post(url, hidden(asked) | {"confirmed": "yes", "reason": "broken fan"})
    server.refresh_from_db()
    assert server.state == "draining"


def test_tasks_of_unlike_sizes_are_shown_by_workload(fig2, tenant, operator):
    draft = WorkloadDraft(tenant("u1"), "large", vector(2, 1), tasks=1)
    workloads_submit(pool=fig2, drafts=[draft], now=NOON)
    server = Server.objects.get(name="high-cpu")
    url = reverse("admin:pools_server_changelist")
    asked = operator.post(url, {"action": "drain", "_selected_action": str(server.pk)})
    found = next(row for row in asked.context["impacts"][0].tenants if row.tenant == "u1")
    shown = [f"{each.name}: {each.before:g} → {each.after:g}" for each in found.workloads]
    assert shown[0].startswith("analysis: 10 → ")
    cells = re.findall(r"<div>(.*?)</div>", asked.content.decode())
    assert "<br>".join(shown) in [re.sub("</?data[^>]*>", "", cell) for cell in cells]


def test_a_large_loss_is_not_hidden_by_many_small_tasks():
    """Added up, tenant a would run 26 tasks more; b gains, and c is as before."""

    def answer(**tasks):
        return {
            "allocations": [
                {"tenant": name[0], "workload": {"name": name}, "tasks": count, "weighted_share": 1}
                for name, count in tasks.items()
            ]
        }

    small = {f"a_small_{number}": 5.0 for number in range(6)}
    before = answer(a_large=4.0, a_half=2.0, **small, b_one=1.0, c_one=3.0)
    more = dict.fromkeys(small, 10.0)
    rows = changed_tenants(before, answer(a_large=0.0, a_half=1.0, **more, b_one=2.0, c_one=3.0))
    assert [(row.tenant, len(row.workloads)) for row in rows] == [("a", 8), ("b", 1)]
    assert [each.name for each in rows[0].workloads[:3]] == ["a_large", "a_half", "a_small_0"]
    assert [each.part for each in rows[0].workloads[:3]] == [-1, -0.5, 0.5]
    first = shortened(rows[0])
    assert (len(first.workloads), first.more, first.workloads[0].name) == (5, 3, "a_large")


def test_servers_that_were_drained_before_are_left_and_counted(fig2, operator):
    first, second = Server.objects.order_by("name")
    url = reverse("admin:pools_server_changelist")
    sent = {"action": "drain", "confirmed": "yes", "reason": "broken fan"}
    operator.post(url, sent | {"_selected_action": [str(first.pk)]})
    both = sent | {"_selected_action": [str(first.pk), str(second.pk)]}
    page = operator.post(url, both, follow=True).content.decode()
    assert "1 server drained." in page
    assert "1 server was drained already." in page
    told = AuditEntry.objects.filter(action="server.drain").values_list("object_id", flat=True)
    assert sorted(told) == sorted([str(first.pk), str(second.pk)])
