"""Documents of statements and months."""

from collections.abc import Mapping
from typing import Any

import orjson

from allocator_service.billing.models import LineKind
from allocator_service.billing.months import MONTH_PATTERN
from allocator_service.billing.rating.savings import REASONS
from allocator_service.billing.statements.documents import CHARGE, CLOSED, CREDIT, OPEN
from allocator_service.pools.models import Pool
from allocator_service.tenants.models import Tenant
from api.contract import documents
from api.contract.parameters import PageParameters
from api.pseudonyms import tenant_name
from api.v1.clusters import MAX_CLUSTERS
from api.v1.entry_documents import MAX_SEQUENCE

MAX_LINES = 10**9
MAX_PARTS = 10**6

MAX_ACCOUNTS = 10**6

STATES = [OPEN, CLOSED]


class MonthField(documents.PatternField):
    def __init__(self, **options: Any) -> None:
        super().__init__(
            pattern=MONTH_PATTERN,
            code="month.syntax",
            expected="a month such as 2027-03",
            **options,
        )

    def write(self, value: Any, context: Any) -> str:
        return value if isinstance(value, str) else f"{value:%Y-%m}"


class StatementParameters(PageParameters):
    month = MonthField(
        required=False, description="Statements of this month only, such as 2027-03."
    )
    tenant = documents.SlugField(
        required=False, description="Statements of the tenant with this slug only."
    )
    state = documents.ChoiceField(
        choices=STATES,
        required=False,
        description="Statements in this state only: `open` ones still change, `closed` ones never.",
    )


class StatementRowDocument(documents.Document):
    month = MonthField()
    tenant = documents.SlugField()
    state = documents.ChoiceField(choices=STATES)
    billed = documents.DecimalField(
        allow_null=True, description="Null while it is open: it is computed when it is read."
    )
    currency = documents.CurrencyField(source=documents.Given("pool.currency"))
    closed_at = documents.TimestampField(allow_null=True)


class CloseRequest(documents.Document):
    month = MonthField()


class PartDocument(documents.Document):
    price = documents.DecimalField()
    hours = documents.DecimalField(description="Unit × hours that are charged at this price.")


class LineDocument(documents.Document):
    number = documents.IntegerField(minimum=1, maximum=MAX_LINES)
    kind = documents.ChoiceField(choices=LineKind.values)
    role = documents.ChoiceField(
        choices=[CHARGE, CREDIT], description="A credit is for servers that others used."
    )
    resource = documents.TextField(max_length=63, allow_null=True)
    unit = documents.TextField(max_length=20, allow_null=True)
    server_owner = documents.TextField(
        max_length=63, allow_null=True, description="Null is the pool; others by pseudonyms."
    )
    user = documents.TextField(max_length=63)
    plan = documents.TextField(max_length=300, allow_null=True)
    from_ = documents.TimestampField()
    to = documents.TimestampField()
    service_month = MonthField()
    amount = documents.DecimalField(allow_null=True, description="Unit × seconds, exactly.")
    hours = documents.DecimalField(allow_null=True, description="Unit × hours, to 12 digits.")
    price = documents.DecimalField(allow_null=True, description="Null where several held.")
    charge = documents.DecimalField(description="What the user pays.")
    fee = documents.DecimalField(description="What of it the pool keeps.")
    billed = documents.DecimalField(description="What it adds to this statement.")
    effective = documents.DecimalField()
    entry = documents.IdField(
        allow_null=True,
        description="Late entry of an adjustment that has only one; else `entries`.",
    )
    adjusts = MonthField(allow_null=True, description="The closed month that it changes.")
    note = documents.TextField(max_length=2_000, allow_null=True)
    adjusted_kind = documents.ChoiceField(
        choices=LineKind.values,
        allow_null=True,
        required=False,
        description="Kind of the billed lines that an adjustment or rerating changes.",
    )
    commitment = documents.TextField(
        max_length=20, allow_null=True, required=False, description="Commitment of the price plan."
    )
    entries = documents.ids_field(
        max_items=MAX_LINES,
        required=False,
        description="Late entries that caused the difference.",
    )
    parts = documents.ListField(
        PartDocument,
        min_items=0,
        max_items=MAX_PARTS,
        required=False,
        description="Price and hours of each part of the charge, if it is not `hours` × `price`.",
    )
    committed_hours = documents.DecimalField(
        allow_null=True, required=False, description="Unit × hours that an upfront price pays for."
    )


class TotalsDocument(documents.Document):
    charges = documents.DecimalField()
    credits = documents.DecimalField()
    billed = documents.DecimalField()
    effective = documents.DecimalField()


class SavingsDocument(documents.Document):
    alone_cost = documents.DecimalField(allow_null=True)
    outside_cost = documents.DecimalField(allow_null=True)
    paid = documents.DecimalField()
    saved = documents.DecimalField(allow_null=True)
    reason = documents.ChoiceField(choices=list(REASONS), allow_null=True)
    why = documents.TextField(max_length=300, allow_null=True)
    lost_hours = documents.MapField(
        documents.DecimalField(), names=documents.TextField(max_length=63)
    )
    definition = documents.TextField(max_length=2_000)


class MethodDocument(documents.Document):
    policy = documents.TextField(max_length=63)
    mode = documents.TextField(max_length=63)


class ClusterHoursDocument(documents.Document):
    cluster = documents.StringField(
        allow_null=True, description="null: use whose cluster is not known."
    )
    hours = documents.MapField(
        documents.DecimalField(),
        names=documents.TextField(max_length=63),
        description="Unit × hours by resource, to 12 digits.",
    )


class StatementDocument(documents.Document):
    pool = documents.SlugField()
    tenant = documents.SlugField()
    month = MonthField()
    state = documents.ChoiceField(choices=STATES)
    currency = documents.CurrencyField()
    timezone = documents.TextField(max_length=63)
    from_ = documents.TimestampField()
    to = documents.TimestampField()
    closed_at = documents.TimestampField(allow_null=True)
    sequence = documents.IntegerField(
        minimum=0,
        maximum=MAX_SEQUENCE,
        allow_null=True,
        required=False,
        description="Entries up to this number are in it.",
    )
    lines = documents.ListField(LineDocument, min_items=0)
    totals = documents.DocumentField(TotalsDocument)
    savings = documents.DocumentField(SavingsDocument)
    method = documents.DocumentField(
        MethodDocument,
        description="How it was decided; entries name the run, and each run has its certificate.",
    )
    notes = documents.SchemaField(schema={"type": "array", "items": {"type": "string"}})
    clusters = documents.ListField(
        ClusterHoursDocument,
        min_items=0,
        max_items=MAX_CLUSTERS,
        required=False,
        description="In a pool with clusters: what the tenant used in the month on each. Absent from"
        " statements that were closed before clusters were on statements.",
    )


class GroupMonthDocument(documents.Document):
    month = MonthField()
    group = documents.SlugField()
    state = documents.ChoiceField(choices=STATES)
    tenants = documents.IntegerField(
        minimum=1, maximum=MAX_ACCOUNTS, description="How many are below it."
    )
    billed = documents.DecimalField(allow_null=True, description="Null while the month is open.")
    currency = documents.CurrencyField(source=documents.Given("pool.currency"))
    closed_at = documents.TimestampField(allow_null=True)


class GroupBelowDocument(TotalsDocument):
    group = documents.SlugField()
    tenants = documents.IntegerField(
        minimum=1, maximum=MAX_ACCOUNTS, description="How many are below it."
    )


class TenantOfGroupDocument(TotalsDocument):
    tenant = documents.SlugField()
    group = documents.SlugField(description="Its own group, at `tree_at`.")


class GroupStatementDocument(documents.Document):
    pool = documents.SlugField()
    group = documents.SlugField()
    month = MonthField()
    state = documents.ChoiceField(choices=STATES)
    currency = documents.CurrencyField()
    timezone = documents.TextField(max_length=63)
    from_ = documents.TimestampField()
    to = documents.TimestampField()
    closed_at = documents.TimestampField(allow_null=True)
    tree_at = documents.TimestampField(description="The tree just before this instant counts.")
    totals = documents.DocumentField(TotalsDocument, description="The sum of the tenants below.")
    groups = documents.ListField(
        GroupBelowDocument,
        min_items=0,
        max_items=MAX_ACCOUNTS,
        description="The groups directly below it, each with the sum of its tenants.",
    )
    tenants = documents.ListField(
        TenantOfGroupDocument,
        min_items=0,
        max_items=MAX_ACCOUNTS,
        description="All tenants below it, at any level.",
    )
    definition = documents.TextField(max_length=1_000)
    clusters = documents.ListField(
        ClusterHoursDocument,
        min_items=0,
        max_items=MAX_CLUSTERS,
        required=False,
        description="In a pool with clusters: the sum of the `clusters` of the tenants' statements."
        " Absent if these have none.",
    )


class AccountDocument(documents.Document):
    account = documents.ChoiceField(choices=["tenant", "fee", "pool"])
    tenant = documents.TextField(max_length=63, allow_null=True)
    billed = documents.DecimalField()


class MissingDocument(documents.Document):
    code = documents.TextField(max_length=60)
    detail = documents.TextField(max_length=300)


class MonthDocument(documents.Document):
    pool = documents.SlugField()
    month = MonthField()
    state = documents.ChoiceField(choices=STATES)
    currency = documents.CurrencyField()
    timezone = documents.TextField(max_length=63)
    from_ = documents.TimestampField()
    to = documents.TimestampField()
    closed_at = documents.TimestampField(allow_null=True)
    sequence = documents.IntegerField(minimum=0, maximum=MAX_SEQUENCE, allow_null=True)
    previous_sequence = documents.IntegerField(minimum=0, maximum=MAX_SEQUENCE, allow_null=True)
    missing = documents.ListField(
        MissingDocument, min_items=0, description="What it lacks to be closed."
    )
    lines = documents.IntegerField(minimum=0, maximum=MAX_LINES)
    accounts = documents.ListField(AccountDocument, min_items=0, max_items=MAX_ACCOUNTS)
    sum = documents.DecimalField(description="Of the accounts: 0.")


class SumDocument(documents.Document):
    tenant = documents.SlugField()
    resource = documents.TextField(max_length=63)
    kind = documents.TextField(max_length=10)
    rows = documents.IntegerField(minimum=0, maximum=MAX_SEQUENCE)
    amount = documents.DecimalField()


class ManifestDocument(documents.Document):
    pool = documents.SlugField()
    month = MonthField()
    sequence = documents.IntegerField(minimum=0, maximum=MAX_SEQUENCE)
    previous_sequence = documents.IntegerField(minimum=0, maximum=MAX_SEQUENCE)
    from_ = documents.TimestampField()
    to = documents.TimestampField()
    rows = documents.IntegerField(minimum=0, maximum=MAX_SEQUENCE)
    sums = documents.ListField(SumDocument, min_items=0)
    sha256 = documents.PatternField(pattern="^[0-9a-f]{64}$", code="digest.syntax")
    entries = documents.TextField(max_length=300, description="Where these entries are.")
    definition = documents.TextField(max_length=1_000)


def statement_shown(content: bytes, *, pool: Pool, caller: Tenant | None) -> dict[str, Any]:
    """Return a stored statement as the caller may see it.

    A tenant sees others under pseudonyms, and no sequence: it counts what others used.
    """
    # The stored bytes of a closed month are what was hashed. Only a copy of their value is changed.
    document: dict[str, Any] = orjson.loads(content)
    if caller is None:
        return document
    # A position in the ledger of the whole pool, whose growth is the use of the others.
    del document["sequence"]
    document["lines"] = [_line_shown(line, pool, caller) for line in document["lines"]]
    return document


def _line_shown(line: Mapping[str, Any], pool: Pool, caller: Tenant) -> dict[str, Any]:
    shown = dict(line)
    if line["role"] == CREDIT:
        # How the hours of a user fall into tiers depends on what it used elsewhere.
        shown.pop("parts", None)
    for name in ("server_owner", "user"):
        if shown[name] is not None:
            shown[name] = tenant_name(shown[name], pool=pool, caller=caller)
    return shown
