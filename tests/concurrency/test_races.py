"""Races, with real threads and transactions."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from threading import Barrier

import pytest
from django.contrib.auth import get_user_model
from django.db import connection, transaction

from allocator_service.allocation.models import Run
from allocator_service.allocation.policies import policy_choose
from allocator_service.allocation.runs.recompute import recompute_pool
from allocator_service.core.errors import Conflict, DomainError, Stale
from allocator_service.core.locks import Lock, try_lock_across_transactions
from allocator_service.enforcement.models import Agent, Report
from allocator_service.enforcement.services import ReportDraft, TenantReport, report_put
from allocator_service.ledger.intake.sources import sources_claim
from allocator_service.ledger.models import UsageSource
from allocator_service.pools.group_services import (
    GroupDraft,
    GroupSettings,
    group_retire,
    group_update,
    groups_create,
)
from allocator_service.pools.member_services import member_put
from allocator_service.pools.models import Group, GroupTerms, MembershipTerms, Pool, Server
from allocator_service.pools.services import pool_update
from allocator_service.tenants.models import Person
from allocator_service.tenants.people import (
    Identity,
    RoleGroups,
    group_grant_create,
    person_admit,
)
from allocator_service.webhooks.models import Webhook, WebhookScope
from allocator_service.webhooks.services import (
    WEBHOOKS_OF_BILLING,
    WebhookSettings,
    webhook_create,
)
from allocator_service.workloads.models import Workload
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests.integration.conftest import NOON, settings, vector

CLUSTERS = ("east", "west")

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(count: int, action: Callable[[int], object]) -> list[object]:
    """Run `action(0..count-1)` in threads that start together; results, or the domain's errors."""
    barrier = Barrier(count)

    def run(number: int) -> object:
        barrier.wait()
        try:
            return action(number)
        except DomainError as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(run, range(count)))


def test_of_eight_edits_of_one_version_one_is_made(pool):
    outcomes = at_once(
        8,
        lambda n: pool_update(pool=pool, settings=settings(name=f"Name {n}"), version=1, now=NOON),
    )
    winners = [outcome for outcome in outcomes if isinstance(outcome, Pool)]
    assert len(winners) == 1
    assert [type(outcome) for outcome in outcomes].count(Stale) == 7
    stored = Pool.objects.get(pk=pool.pk)
    assert (stored.name, stored.version, stored.generation) == (winners[0].name, 2, 2)


def test_generations_of_concurrent_changes_are_gapless_and_none_is_lost(fig2, tenant):
    u1 = tenant("u1")
    outcomes = at_once(
        8,
        lambda n: (
            workloads_submit(
                pool=fig2, drafts=[WorkloadDraft(u1, f"w{n}", vector(1, 1))], now=NOON
            ).generation
        ),
    )
    assert sorted(outcomes) == list(range(4, 12))
    assert Workload.objects.count() == 10
    run = recompute_pool(pool_id=fig2.pk, clock=lambda: NOON)
    assert (run.generation, run.allocations.count()) == (11, 10)


def test_of_eight_workers_with_one_message_one_decides(fig2):
    outcomes = at_once(8, lambda _: recompute_pool(pool_id=fig2.pk, clock=lambda: NOON))
    assert len([run for run in outcomes if run is not None]) == 1
    assert Run.objects.count() == 1


def group_named(slug: str) -> Group:
    return Group.objects.get(slug=slug)


def test_two_moves_at_once_never_close_a_cycle(pool):
    drafts = [GroupDraft(slug, GroupSettings(slug, None)) for slug in ("a", "b")]
    groups_create(pool=pool, drafts=drafts, now=NOON)
    for attempt in range(5):
        outcomes = at_once(
            2,
            lambda n: group_update(
                group=group_named("ab"[n]),
                settings=GroupSettings("moved", "ba"[n]),
                version=None,
                now=NOON,
            ),
        )
        refused = [outcome for outcome in outcomes if isinstance(outcome, DomainError)]
        assert [error.code for error in refused] == ["group.cycle"]
        parents = GroupTerms.objects.filter(end=None).values_list("parent__slug", flat=True)
        assert set(parents) in ({"a", None}, {"b", None})
        for slug in "ab":
            terms = GroupSettings(f"back {attempt}", None)
            group_update(group=group_named(slug), settings=terms, version=None, now=NOON)


def test_eight_new_groups_at_once_are_all_there_and_of_one_slug_is_one(pool):
    def create(slug: str) -> object:
        return groups_create(
            pool=pool, drafts=[GroupDraft(slug, GroupSettings(slug, None))], now=NOON
        )

    at_once(8, lambda n: create(f"g{n}"))
    assert Group.objects.count() == 8
    outcomes = at_once(8, lambda _: create("same"))
    codes = [outcome.code for outcome in outcomes if isinstance(outcome, DomainError)]
    assert codes == ["group.exists"] * 7
    assert Pool.objects.get().generation == 10


def test_no_member_enters_a_group_that_is_being_retired(pool, tenant):
    tenants = [tenant(f"t{n}") for n in range(4)]
    for attempt in range(3):
        draft = GroupDraft("ml", GroupSettings("ML", None))
        (group,) = groups_create(pool=pool, drafts=[draft], now=NOON)

        def act(number: int, group: Group = group) -> object:
            if number == 4:
                return group_retire(group=group, version=None, now=NOON)
            present = pool.memberships.filter(tenant=tenants[number]).first()
            return member_put(
                pool=pool,
                tenant=tenants[number],
                weight=Decimal(1),
                best_effort=False,
                group="ml",
                version=present.version if present else None,
                now=NOON,
            )

        at_once(5, act)
        group.refresh_from_db()
        inside = MembershipTerms.objects.filter(end=None, group=group)
        assert (group.retired_at is None) == inside.exists(), attempt
        for terms in inside.select_related("membership__tenant"):
            member_put(
                pool=pool,
                tenant=terms.membership.tenant,
                weight=Decimal(1),
                best_effort=False,
                version=terms.membership.version,
                now=NOON,
            )
        if group.retired_at is None:
            group_retire(group=group, version=None, now=NOON)


def test_of_a_policy_without_groups_and_a_first_group_at_once_one_is_refused(pool):
    asset = settings(policy=policy_choose("asset", None, {}))

    def act(number: int) -> object:
        if number:
            return pool_update(pool=pool, settings=asset, version=None, now=NOON)
        draft = GroupDraft("ml", GroupSettings("ML", None))
        return groups_create(pool=pool, drafts=[draft], now=NOON)

    outcomes = at_once(2, act)
    codes = [outcome.code for outcome in outcomes if isinstance(outcome, DomainError)]
    assert codes == ["policy.no_groups"]
    has_group = Group.objects.filter(pool=pool).exists()
    assert has_group == (Pool.objects.get(pk=pool.pk).policy_name == "drfh")


def report_of(agent: str, tenants: list[TenantReport]) -> ReportDraft:
    return ReportDraft(
        agent=agent,
        target="slurm",
        class_label="partition",
        run=None,
        generation=None,
        interval="PT15S",
        reported_at=NOON,
        tenants=tenants,
        problems=[],
    )


def test_the_first_report_of_an_agent_in_eight_copies_is_stored_once(fig2):
    draft = report_of("slurm", [TenantReport("u1", {"cpu": 2}, {"cpu": 1}, 0, 1, [])])
    outcomes = at_once(8, lambda _: report_put(pool=fig2, draft=draft, now=NOON))
    assert {outcome.pk for outcome in outcomes} == {Report.objects.get().pk}
    assert Agent.objects.count() == 1


def test_of_eight_agents_that_report_at_once_none_is_lost(fig2):
    outcomes = at_once(
        8, lambda n: report_put(pool=fig2, draft=report_of(f"agent-{n}", []), now=NOON)
    )
    assert len({outcome.pk for outcome in outcomes}) == 8
    assert Agent.objects.count() == Report.objects.count() == 8


@pytest.mark.parametrize("is_freed", [False, True])
def test_of_two_clusters_that_post_usage_of_a_source_at_once_one_has_it(fig2, is_freed):
    servers = list(Server.objects.filter(pool=fig2))
    for server, cluster in zip(servers, CLUSTERS, strict=False):
        Server.objects.filter(pk=server.pk).update(labels={"cluster": cluster})
    if is_freed:
        UsageSource.objects.create(pool=fig2, source="meter", cluster="")

    def claim(number):
        with transaction.atomic():
            sources_claim(fig2, CLUSTERS[number % 2], ["meter"])
        return CLUSTERS[number % 2]

    outcomes = at_once(8, claim)
    got = {outcome for outcome in outcomes if isinstance(outcome, str)}
    assert got == {UsageSource.objects.get().cluster}
    assert {each.code for each in outcomes if isinstance(each, DomainError)} == {"cluster.other"}


def test_eight_webhooks_at_once_stay_within_the_limit_of_all_tenants(db, now):
    hook = WebhookSettings("https://receiver.example/", [])

    def create(_number):
        return webhook_create(
            tenant=None,
            pool=None,
            settings=hook,
            allowed=[],
            secret_key="tests",
            now=now,
            scope=WebhookScope.BILLING,
        )

    for number in range(WEBHOOKS_OF_BILLING - 1):
        create(number)
    outcomes = at_once(8, create)
    assert [type(outcome) for outcome in outcomes].count(Conflict) == 7
    assert Webhook.objects.count() == WEBHOOKS_OF_BILLING


def test_the_first_sign_in_of_a_person_in_eight_copies_registers_one(tenant):
    group_grant_create(group="biology", tenant=tenant("u1"), now=NOON)
    identity = Identity("https://id.example", "ada-1", "Ada", ["biology"])
    outcomes = at_once(
        8,
        lambda _: person_admit(identity=identity, role_groups=RoleGroups("", ""), now=NOON),
    )
    assert {outcome.pk for outcome in outcomes} == {Person.objects.get().pk}
    assert get_user_model().objects.count() == 1


def test_a_lock_is_free_again_the_moment_its_holder_is_gone(db):
    with try_lock_across_transactions(Lock.RECOMPUTE, "x") as first:
        with try_lock_across_transactions(Lock.RECOMPUTE, "x") as second:
            assert (first, second) == (True, False)
        with try_lock_across_transactions(Lock.RECOMPUTE, "y") as other:
            assert other is True
    with try_lock_across_transactions(Lock.RECOMPUTE, "x") as again:
        assert again is True
