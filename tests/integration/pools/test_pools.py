"""Pools, members and servers: every change is dated, counted and refused whole or done whole."""

import re
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction

from allocator_service.allocation.policies import policy_choose
from allocator_service.core.constraints import domain_error_for
from allocator_service.core.errors import (
    Conflict,
    Missing,
    PreconditionRequired,
    Stale,
    TooLarge,
    Unacceptable,
)
from allocator_service.core.quantities import Resource
from allocator_service.pools.member_services import member_put
from allocator_service.pools.models import (
    Contribution,
    Membership,
    MembershipTerms,
    Pool,
    RecomputeJob,
    Server,
    ServerState,
)
from allocator_service.pools.policy import PolicyChoice, Window
from allocator_service.pools.selectors import pool_get, resources_of, server_groups
from allocator_service.pools.server_services import (
    ServerDraft,
    ServerSettings,
    server_activate,
    server_drain,
    server_retire,
    server_update,
    servers_contribute,
)
from allocator_service.pools.services import pool_create, pool_retire, pool_update
from allocator_service.workloads.services import WorkloadDraft, workloads_submit
from tests.integration.conftest import NOON, another_session, settings, vector

pytestmark = pytest.mark.django_db


def generation(pool):
    return Pool.objects.get(pk=pool.pk).generation


def rows_read_by_checking_constraints():
    """How many servers PostgreSQL reads one after the other, not by an index, to check what waits."""
    with connection.cursor() as cursor:
        read = "SELECT pg_stat_get_xact_tuples_returned('server'::regclass)"
        before = cursor.execute(read).fetchone()[0]
        connection.check_constraints()
        return cursor.execute(read).fetchone()[0] - before


def test_a_new_pool_asks_for_its_first_decision(pool):
    assert generation(pool) == 1
    assert RecomputeJob.objects.get(pool=pool).wanted == 1
    assert resources_of(pool) == [Resource("cpu", "core"), Resource("memory", "GiB")]


def test_a_slug_is_taken_once_and_for_ever(pool, now):
    pool_retire(pool=pool, version=1, now=now)
    with pytest.raises(IntegrityError) as refused, transaction.atomic():
        pool_create(slug="lab", settings=settings(), now=now)
    error = domain_error_for(refused.value.__cause__.diag.constraint_name)
    assert (error.status, error.code) == (409, "pool.exists")


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"resources": []}, "resources.count", "/resources"),
        (
            {"resources": [Resource("cpu"), Resource("cpu")]},
            "resource.duplicate",
            "/resources/1/name",
        ),
        ({"timezone": "Mars/Base"}, "timezone.unknown", "/timezone"),
        ({"decision_interval": "soon"}, "duration.syntax", "/decision_interval"),
        ({"decision_interval": "PT0S"}, "duration.zero", "/decision_interval"),
        ({"window": Window("tumbling", NOON, "P0D")}, "duration.zero", "/window/length"),
        ({"window": Window("decay", NOON, "", "x")}, "duration.syntax", "/window/half_life"),
        (
            {
                "policy": PolicyChoice("h-mrf", "indivisible", {}, long_term=True, places=True),
                "window": Window("none", NOON),
            },
            "window.none",
            "/window/kind",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused_and_nothing_is_made(
    db, now, changes, code, pointer
):
    with pytest.raises(Unacceptable) as refused:
        pool_create(slug="bad", settings=settings(**changes), now=now)
    assert [(e.code, e.pointer) for e in refused.value.errors] == [(code, pointer)]
    assert not Pool.objects.filter(slug="bad").exists()


def test_a_decaying_window_without_a_half_life_gets_seven_days(db, now):
    pool = pool_create(slug="decay", settings=settings(window=Window("decay", now, "")), now=now)
    assert pool.window_half_life == "P7D"


def test_an_unknown_policy_mode_or_option_is_refused():
    for arguments, code in [
        (("magic", None, {}), "policy.unknown"),
        (("static", "divisible", {}), "policy.mode"),
        (("drfh", None, {"speed": 11}), "policy.options"),
    ]:
        with pytest.raises(Unacceptable) as refused:
            policy_choose(*arguments)
        assert refused.value.code == code


def test_resources_can_be_added_at_the_end_and_never_dropped_or_remeasured(fig2, now):
    gpu = Resource("gpu", "count")
    both = [Resource("cpu", "core"), Resource("memory", "GiB")]
    with pytest.raises(Conflict) as dropped:
        pool_update(pool=fig2, settings=settings(resources=both[:1]), version=1, now=now)
    changed = [both[0], Resource("memory", "MiB")]
    with pytest.raises(Conflict) as remeasured:
        pool_update(pool=fig2, settings=settings(resources=changed), version=1, now=now)
    assert dropped.value.code == remeasured.value.code == "in_use"
    pool_update(pool=fig2, settings=settings(resources=[gpu, *both]), version=1, now=now)
    assert resources_of(Pool.objects.get(pk=fig2.pk)) == [*both, gpu]


def test_a_stale_change_is_refused_and_changes_nothing(pool, now):
    pool_update(pool=pool, settings=settings(name="First"), version=1, now=now)
    with pytest.raises(Stale):
        pool_update(pool=pool, settings=settings(name="Second"), version=1, now=now)
    assert Pool.objects.get(pk=pool.pk).name == "First"
    assert generation(pool) == 2


def test_a_policy_that_does_not_place_is_refused_while_workloads_select_servers(fig2, tenant, now):
    workloads_submit(
        pool=fig2,
        drafts=[WorkloadDraft(tenant("u1"), "gpu", vector(1, 1), server_selector={"gpu": "a100"})],
        now=now,
    )
    with pytest.raises(Unacceptable) as refused:
        pool_update(
            pool=fig2, settings=settings(policy=policy_choose("drf", None, {})), version=1, now=now
        )
    assert refused.value.code == "policy.no_placement"
    assert Pool.objects.get(pk=fig2.pk).policy_name == "drfh"


def test_a_pool_with_servers_is_not_retired_and_a_retired_one_is_gone(fig2, now):
    with pytest.raises(Conflict) as refused:
        pool_retire(pool=fig2, version=None, now=now)
    assert refused.value.code == "in_use"
    for server in fig2.servers.all():
        server_retire(server=server, now=now)
    pool_retire(pool=fig2, version=None, now=now)
    with pytest.raises(Missing):
        pool_get(slug="lab", tenant=None)


class TestMembers:
    def test_weights_are_dated_and_history_is_kept(self, pool, tenant, now):
        later = now + timedelta(hours=1)
        membership, admitted = member_put(
            pool=pool,
            tenant=tenant("u1"),
            weight=Decimal(2),
            best_effort=False,
            version=None,
            now=now,
        )
        assert admitted
        changed, admitted = member_put(
            pool=pool,
            tenant=tenant("u1"),
            weight=Decimal(3),
            best_effort=True,
            version=1,
            now=later,
        )
        assert not admitted
        assert changed.version == 2
        assert list(membership.terms.values_list("weight", "best_effort", "start", "end")) == [
            (2, False, now, later),
            (3, True, later, None),
        ]

    def test_an_existing_member_needs_its_version(self, pool, tenant, now):
        put = {"pool": pool, "tenant": tenant("u1"), "best_effort": False, "now": now}
        member_put(**put, weight=Decimal(1), version=None)
        with pytest.raises(PreconditionRequired):
            member_put(**put, weight=Decimal(2), version=None)
        with pytest.raises(Stale):
            member_put(**put, weight=Decimal(2), version=7)
        assert MembershipTerms.objects.get().weight == 1

    @pytest.mark.parametrize("weight", ["0", "-1", "1e12", "NaN"])
    def test_a_weight_is_a_positive_number(self, pool, tenant, now, weight):
        with pytest.raises((Unacceptable, ArithmeticError)):
            member_put(
                pool=pool,
                tenant=tenant("u1"),
                weight=Decimal(weight),
                best_effort=False,
                version=None,
                now=now,
            )
        assert not Membership.objects.exists()


class TestServers:
    def test_contributing_admits_the_contributor_and_dates_the_contribution(self, fig2, tenant):
        server = Server.objects.get(name="high-cpu")
        assert server.contributed_by == tenant("u2")
        assert Membership.objects.filter(pool=fig2).count() == 2
        contribution = server.contributions.get()
        assert (contribution.tenant, contribution.start, contribution.end) == (
            tenant("u2"),
            NOON,
            None,
        )

    def test_a_count_names_servers_in_four_digits_or_more(self):
        assert ServerDraft("node", vector(1), count=2).names() == ["node-0001", "node-0002"]
        assert ServerDraft("node", vector(1), count=12_345).names()[0] == "node-00001"
        assert ServerDraft("node", vector(1)).names() == ["node"]

    def test_names_are_unique_per_contributor_and_the_item_is_named(self, fig2, tenant, now):
        servers_contribute(
            pool=fig2, drafts=[ServerDraft("high-cpu", vector(1, 1), tenant("u3"))], now=now
        )
        drafts = [
            ServerDraft("new", vector(1, 1), tenant("u2"), pointer="/0"),
            ServerDraft("high-cpu", vector(1, 1), tenant("u2"), pointer="/1"),
            ServerDraft("new", vector(1, 1), tenant("u2"), pointer="/2"),
        ]
        before = generation(fig2)
        with pytest.raises(Conflict) as refused:
            servers_contribute(pool=fig2, drafts=drafts, now=now)
        assert [e.pointer for e in refused.value.errors] == ["/1/name", "/2/name"]
        assert Server.objects.filter(name="new").count() == 0
        assert generation(fig2) == before

    def test_a_retired_servers_name_is_free_again(self, fig2, tenant, now):
        server_retire(server=Server.objects.get(name="high-cpu"), now=now)
        servers_contribute(
            pool=fig2, drafts=[ServerDraft("high-cpu", vector(1, 1), tenant("u2"))], now=now
        )
        assert Server.objects.filter(name="high-cpu").count() == 2

    def test_a_server_of_nothing_is_refused(self, pool, now):
        with pytest.raises(Unacceptable) as refused:
            servers_contribute(pool=pool, drafts=[ServerDraft("null", vector(0, 0))], now=now)
        assert refused.value.code == "capacity.zero"
        assert generation(pool) == 1

    def test_a_hundred_thousand_servers_are_taken_at_once_and_one_more_is_not(self, pool, now):
        with pytest.raises(TooLarge):
            servers_contribute(
                pool=pool, drafts=[ServerDraft("n", vector(1, 1), count=100_001)], now=now
            )
        created = servers_contribute(
            pool=pool, drafts=[ServerDraft("n", vector(1, 1), count=100_000)], now=now
        )
        assert len(created.ids) == 100_000
        (group,) = server_groups(pool)
        assert (group.count, group.names[0], group.names[-1]) == (100_000, "n-000001", "n-100000")

    def test_a_pool_that_grows_at_once_is_checked_by_index(self, pool, now):
        """PostgreSQL keeps the plan of a foreign key's check, made when one page held all servers."""
        with connection.cursor() as cursor:
            cursor.execute(
                "TRUNCATE server CASCADE"
            )  # what other tests rolled back fills pages, too
            for number in range(10):
                draft = ServerDraft(f"s{number}", vector(1, 1))
                servers_contribute(pool=pool, drafts=[draft], now=now)
                if not number:
                    cursor.execute("ANALYZE server")
                read = rows_read_by_checking_constraints()
        assert read > 1  # the control: the plan that is kept reads all
        servers_contribute(pool=pool, drafts=[ServerDraft("n", vector(1, 1), count=5_000)], now=now)
        assert rows_read_by_checking_constraints() <= 10 * 5_000

    @pytest.mark.django_db(transaction=True)  # rolled back rows would stay in the statistics
    @pytest.mark.parametrize("table", ["server", "workload"])
    def test_keys_are_checked_by_their_own_index_while_a_table_seems_empty(
        self, pool, tenant, now, table
    ):
        """Statistics made beside the first import count none of its rows."""
        with transaction.atomic(), connection.cursor() as cursor:
            many = ServerDraft("n", vector(1, 1), count=5_000)
            servers_contribute(pool=pool, drafts=[many], now=now)
            ada = tenant("ada")
            drafts = [WorkloadDraft(ada, f"w{number}", vector(1, 1)) for number in range(5_000)]
            workloads_submit(pool=pool, drafts=drafts, now=now)
            with another_session(autocommit=True) as other:
                other.execute(f"ANALYZE {table}")
            check = f"SELECT 1 FROM ONLY {table} WHERE id = $1 FOR KEY SHARE"
            cursor.execute(f"PREPARE checked (uuid) AS {check}")
            cursor.execute(f"EXPLAIN EXECUTE checked ('{uuid4()}')")
            plan = "\n".join(line for (line,) in cursor.fetchall())
            cursor.execute("DEALLOCATE checked")
        used = re.findall(r"Index Scan (?:using|on) (\S+)", plan)  # plain or by a bitmap
        assert used == [f"{table}_pkey"]

    def test_drain_activate_and_retire_are_steps_that_can_be_repeated(self, fig2, now):
        server = Server.objects.get(name="high-cpu")
        assert server_drain(server=server, now=now).state == ServerState.DRAINING
        before = generation(fig2)
        assert server_drain(server=server, now=now).state == ServerState.DRAINING
        assert generation(fig2) == before
        assert server_activate(server=server, now=now).state == ServerState.ACTIVE
        assert server_retire(server=server, now=now).state == ServerState.RETIRED
        assert server_retire(server=server, now=now).state == ServerState.RETIRED
        for refused in (server_drain, server_activate):
            with pytest.raises(Conflict) as conflict:
                refused(server=server, now=now)
            assert conflict.value.code == "server.retired"
        assert Contribution.objects.get(server=server).end == now

    def test_a_changed_server_keeps_its_identity_and_counts_a_version(self, fig2, now):
        server = Server.objects.get(name="high-cpu")
        settings_ = ServerSettings("bigger", vector(24, 2), {"zone": "a"})
        changed = server_update(server=server, settings=settings_, version=1, now=now)
        assert (changed.pk, changed.name, changed.version) == (server.pk, "bigger", 2)
        with pytest.raises(Stale):
            server_update(server=server, settings=settings_, version=1, now=now)


@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        ("UPDATE server SET capacity = '{-1,2}'", "server_capacity_nonnegative"),
        ("UPDATE server SET capacity = '{NaN,2}'", "server_capacity_nonnegative"),
        ("UPDATE workload SET demand = '{0,0}'", "workload_demand_positive"),
        ("UPDATE workload SET tasks = -1", "workload_tasks_nonnegative"),
        ("UPDATE pool_membership_terms SET weight = 0", "membership_weight_positive"),
        ("UPDATE server SET state = 'lost'", "server_state_known"),
        ("INSERT INTO server_contribution (server_id, start) SELECT id, now() FROM server",
         "contribution_one_present"),
        ("INSERT INTO server_contribution (server_id, start, \"end\")"
         " SELECT id, created_at, created_at + interval '1 day' FROM server",
         "contribution_disjoint"),
    ],
)  # fmt: skip
def test_the_database_itself_refuses_what_breaks_an_invariant(fig2, statement, constraint):
    from django.db import connection

    with pytest.raises(IntegrityError) as refused, connection.cursor() as cursor:
        cursor.execute(statement)
    assert refused.value.__cause__.diag.constraint_name == constraint
