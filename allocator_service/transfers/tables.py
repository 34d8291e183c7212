"""The tables of a pool, and the columns that name objects by keys of one installation.

Rows move as they are. Only integers that count the rows of an installation (`MOVED_KEYS`) are replaced
by those of the installation that imports the pool, wherever a row has them (docs/adr/0024).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from django.apps import apps
from django.db.models import AutoField, Field, ForeignKey, Model

OF_POOL = "t.pool_id = %(pool)s"
OF_SLUG = "t.pool = %(slug)s"

# Models whose integer keys other rows refer to, with the temporary tables of former and present keys.
MOVED_KEYS = {
    "tenants.Tenant": "key_of_tenant",
    "pools.Pool": "key_of_pool",
    "pools.Group": "key_of_group",
    "pools.Membership": "key_of_membership",
    "billing.Commitment": "key_of_commitment",
    "enforcement.Agent": "key_of_agent",
}


@dataclass(frozen=True)
class Table:
    """The rows of a model that belong to a pool.

    Attributes:
        where: condition of the rows `t`, with the pool's key `pool` and its `slug`.
        values: SQL of columns that are imported as something other than the row's own value or its key.
        keys: SQL of the keys of tenants in a row `t` that no foreign key names.
        conflict: clause of the import for rows that may be there already.
    """

    label: str
    where: str = OF_POOL
    values: Mapping[str, str] = field(default_factory=dict)
    keys: str = ""
    conflict: str = ""

    @property
    def model(self) -> type[Model]:
        return apps.get_model(self.label)

    @property
    def name(self) -> str:
        """The name of the table, and of its folder in the archive."""
        return str(self.model._meta.db_table)

    @property
    def incoming(self) -> str:
        """The temporary table that rows of an archive are read into."""
        return f"incoming_{self.name}"

    @property
    def columns(self) -> list[str]:
        return [str(each.column) for each in self.fields]

    @property
    def fields(self) -> "list[Field[object, object]]":
        return list(self.model._meta.concrete_fields)

    @property
    def key(self) -> str:
        """The column of the primary key, empty for one of several columns."""
        key = self.model._meta.pk
        return "" if key is None or not key.column else str(key.column)

    @property
    def counts_rows(self) -> bool:
        """True if the key is an integer that the database counts."""
        return isinstance(self.model._meta.pk, AutoField)

    def references(self) -> Iterator[tuple[str, "Table"]]:
        """Yield the columns that refer to rows of the pool, with the tables of these rows."""
        for each in self.fields:
            # A closing may cover an audit row that was deleted, as verification states.
            if isinstance(each, ForeignKey) and each.name != "entry":
                yield str(each.column), table_of(each.related_model._meta.label)


def _below(parent: str, column: str) -> str:
    """Return the condition of rows whose parent is a row of the pool."""
    return f"t.{column} IN (SELECT id FROM {parent} WHERE pool_id = %(pool)s)"


def _keys_of(column: str, table: str = "key_of_tenant") -> str:
    """Return the SQL of an array of keys, replaced in their order."""
    return f"""ARRAY(
        SELECT k.key FROM unnest(t.{column}) WITH ORDINALITY AS o (former, place)
        LEFT JOIN {table} k ON k.former = o.former ORDER BY o.place)"""


_SHARES = """(
    SELECT COALESCE(jsonb_agg(jsonb_build_array(k.key, o.share -> 1) ORDER BY o.place), '[]')
    FROM jsonb_array_elements(t.tenants) WITH ORDINALITY AS o (share, place)
    LEFT JOIN key_of_tenant k ON k.former = (o.share ->> 0)::bigint)"""
_PACKED = """(
    SELECT COALESCE(jsonb_object_agg(o.name, jsonb_build_array(o.server -> 0, k.key)), '{}')
    FROM jsonb_each(t.servers) AS o (name, server)
    LEFT JOIN key_of_tenant k ON k.former = (o.server ->> 1)::bigint)"""
# A key of this name may live here. Both work, and `manage.py apikey` selects them by their names.
_KEY_NAME = """CASE WHEN EXISTS (
        SELECT FROM api_key k WHERE k.name = t.name AND k.revoked_at IS NULL AND k.expires_at > %(now)s)
    THEN left(t.name, 100 - length(%(slug)s) - 3) || ' (' || %(slug)s || ')' ELSE t.name END"""
# Keys here of objects that were moved before, by the keys that they had where they come from.
_PRESENT_KEY = "CASE t.object_type {whens} END".replace(
    "{whens}",
    " ".join(
        f"WHEN '{label.partition('.')[2].lower()}' THEN"
        f" (SELECT k.key FROM {keys} k WHERE k.former = t.key)"
        for label, keys in MOVED_KEYS.items()
    ),
)
_RUN, _SERVER, _PLAN = (_below(*each) for each in (
    ("run", "run_id"), ("server", "server_id"), ("billing_plan", "plan_id"),
))  # fmt: skip
_UNCLAIMED = {
    "token": "NULL::uuid",
    "claimed_at": "NULL::timestamptz",
    "published_at": "NULL::timestamptz",
    "publications": "0",
}

# In the order of the archive. Parts of price plans come while the plan is a draft (`importing`), and
# postings before the closings that close their months, as triggers of the database demand.
TABLES = (
    Table("tenants.Tenant", where="t.id = ANY(%(tenants)s)"),
    Table(
        "pools.Pool",
        where="t.id = %(pool)s",
        values={"moved_at": "NULL::timestamptz", "moved_to": "''"},
    ),
    Table("pools.ResourceType"),
    Table("pools.Cluster"),
    Table("pools.RecomputeJob", values=_UNCLAIMED),
    Table("pools.Group"),
    Table("pools.GroupTerms", where=_below("pool_group", "group_id")),
    Table("pools.Membership"),
    Table("pools.MembershipTerms", where=_below("pool_membership", "membership_id")),
    Table("pools.Server"),
    Table("pools.Contribution", where=_SERVER),
    Table("workloads.Workload"),
    Table(
        "tenants.ApiKey",
        where=OF_SLUG,
        values={
            "name": _KEY_NAME,
            "group": '(SELECT k.key FROM key_of_group k WHERE k.former = t."group")',
        },
    ),
    Table(
        "tenants.GroupGrant",
        where=OF_SLUG,
        values={"pool_group": "(SELECT k.key FROM key_of_group k WHERE k.former = t.pool_group)"},
    ),
    Table(
        "core.IdempotencyClaim",
        where="t.holder IN (SELECT id FROM api_key WHERE pool = %(slug)s)",
    ),
    Table("ledger.Entry"),
    Table("ledger.Identity"),
    Table("ledger.UsageSource"),
    Table("ledger.Seal"),
    Table("ledger.SealedDecision"),
    Table("ledger.SealedDocument"),
    Table("ledger.Block"),
    Table("ledger.Meter"),
    Table("ledger.OpenUse", values={"owners": _keys_of("owners")}, keys="SELECT unnest(t.owners)"),
    Table("ledger.Total"),
    Table("ledger.OwnerTotal"),
    Table("ledger.TotalsCursor"),
    Table(
        "allocation.Snapshot",
        where="t.digest IN (SELECT snapshot_id FROM run WHERE pool_id = %(pool)s)",
        # Pools share equal inputs. One that was pruned here is kept again.
        conflict=(
            "ON CONFLICT (digest) DO UPDATE SET document = EXCLUDED.document"
            " WHERE run_snapshot.document IS NULL"
        ),
    ),
    Table("allocation.Run", values={"token": "NULL::uuid"}),
    Table("allocation.ServerClass", where=_RUN),
    Table("allocation.Allocation", where=_RUN),
    Table("allocation.Placement", where=_RUN),
    Table("allocation.PlacementDocument", where=_RUN),
    Table("allocation.PlacementDates"),
    Table("allocation.Certificate", where=_RUN),
    Table("allocation.Floors", where=_RUN),
    Table(
        "allocation.Schedule",
        where=_RUN,
        values={"servers": _PACKED},
        keys="SELECT (o.value ->> 1)::bigint FROM jsonb_each(t.servers) AS o",
    ),
    Table(
        "allocation.Step",
        where=_RUN,
        values={"tenant_ids": _keys_of("tenant_ids")},
        keys="SELECT unnest(t.tenant_ids)",
    ),
    Table(
        "billing.PricePlan",
        values={
            "state": "'draft'",
            "number": "NULL::integer",
            "published_at": "NULL::timestamptz",
        },
    ),
    Table("billing.Rate", where=_PLAN),
    Table("billing.SpotPrice", where=_PLAN),
    Table("billing.Commitment", where=_PLAN),
    Table(
        "billing.FixedCost",
        where=_PLAN,
        values={"tenants": _SHARES},
        keys="SELECT (o.value ->> 0)::bigint FROM jsonb_array_elements(t.tenants) AS o",
    ),
    Table("billing.UnitWeight", where=_PLAN),
    Table("billing.CreditNote"),
    Table("billing.Rerating"),
    Table("billing.Posting"),
    Table("billing.Closing"),
    Table("billing.Manifest", where=_below("billing_closing", "closing_id")),
    Table("billing.Statement", where=_below("billing_closing", "closing_id")),
    Table("billing.AuditedEntry", where=_below("billing_closing", "closing_id")),
    Table("billing.LateCursor"),
    Table("billing.LateEntry"),
    Table("billing.Budget"),
    Table("billing.BudgetReached", where=_below("billing_budget", "budget_id")),
    Table("billing.UnitGrant"),
    Table("enforcement.Agent"),
    Table("enforcement.Report", where=_below("enforcement_agent", "agent_id")),
    Table("enforcement.Watch"),
    Table("enforcement.Drift"),
    Table("enforcement.Blockage"),
    Table("core.Event", where=OF_SLUG),
    Table(
        "core.EventSeal",
        where="t.event_id IN (SELECT id FROM core_event WHERE pool = %(slug)s)",
        # Below all numbers here: they are not sent again, and a reader of the pool goes on.
        values={
            "sequence": "(SELECT LEAST(min(sequence), 1) FROM core_event_seal)"
            " - (SELECT count(*) FROM incoming_core_event_seal) - 1"
            " + row_number() OVER (ORDER BY t.sequence)"
        },
    ),
    Table("core.AuditEntry", where=OF_SLUG),
    Table("core.FormerKey", where=OF_SLUG, values={"key": _PRESENT_KEY}),
)

# Models whose rows stay where they are, with the reasons.
STAYING = {
    "tenants.Person": "identities of a provider that the target may not know",
    "core.PendingEvent": "an export waits until there are none",
    "core.PoolLimit": "limits of users of this admin",
    "core.SavedFilter": "of users of this admin",
    "ledger.PendingEntry": "an export waits until there are none",
    "ledger.PendingDecision": "an export waits until there are none",
    "ledger.PendingDocument": "an export waits until there are none",
    "ledger.LedgerImport": "of this installation's numbers",
    "ledger.Archive": "files of this installation: their entries move as rows",
    "ledger.ArchivedPool": "of an archive",
    "allocation.Simulation": "questions, which can be asked again",
    "allocation.Heartbeat": "of this installation's processes",
    "webhooks.Webhook": "secrets are derived from this installation's SECRET_KEY",
    "webhooks.WebhookSecret": "secrets are derived from this installation's SECRET_KEY",
    "webhooks.WebhookQueue": "of a webhook",
    "webhooks.Delivery": "of a webhook",
    "webhooks.DeliveryCursor": "of this installation's events",
    "mail.Subscription": "an address is confirmed for the installation that sends to it",
    "mail.News": "of a subscription",
    "mail.MailState": "of this installation's events",
    "backtests.Backtest": "of the holder of a key, and can be run again",
    "backtests.BacktestInput": "of a backtest",
    "backtests.Cell": "of a backtest",
    "backtests.PolicyComparison": "computed again from the decision in force",
}

_BY_LABEL = {table.label: table for table in TABLES}


def table_of(label: str) -> Table:
    """Return the table of a model that moves."""
    return _BY_LABEL[label]


def tenants_statement() -> str:
    """Return the SQL of the keys of all tenants that a pool's rows name."""
    named = [
        f'SELECT t."{column}" FROM {table.name} t WHERE {table.where}'
        for table in TABLES[1:]
        for column, target in table.references()
        if target.label == "tenants.Tenant"
    ]
    named += [
        f"SELECT o.* FROM {table.name} t, LATERAL ({table.keys}) AS o WHERE {table.where}"
        for table in TABLES
        if table.keys
    ]
    return f"SELECT DISTINCT key FROM ({' UNION ALL '.join(named)}) AS named (key) WHERE key IS NOT NULL"
