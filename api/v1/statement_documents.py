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
from api.contract.fields import IdField, SchemaField, SlugField, TimestampField, ids_field
from api.contract.money import CurrencyField, DecimalField
from api.contract.parameters import PageParameters
from api.pseudonyms import tenant_name
from api.v1.entry_documents import MAX_SEQUENCE
from policies.fields import (
    ChoiceField,
    Document,
    DocumentField,
    Given,
    IntegerField,
    ListField,
    MapField,
    PatternField,
    TextField,
)

MAX_LINES = 10**9

MAX_ACCOUNTS = 10**6

STATES = [OPEN, CLOSED]


class MonthField(PatternField):
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
    tenant = SlugField(required=False, description="Statements of the tenant with this slug only.")
    state = ChoiceField(
        choices=STATES,
        required=False,
        description="Statements in this state only: `open` ones still change, `closed` ones never.",
    )


class StatementRowDocument(Document):
    month = MonthField()
    tenant = SlugField()
    state = ChoiceField(choices=STATES)
    billed = DecimalField(
        allow_null=True, description="Null while it is open: it is computed when it is read."
    )
    currency = CurrencyField(source=Given("pool.currency"))
    closed_at = TimestampField(allow_null=True)


class CloseRequest(Document):
    month = MonthField()


class LineDocument(Document):
    number = IntegerField(minimum=1, maximum=MAX_LINES)
    kind = ChoiceField(choices=LineKind.values)
    role = ChoiceField(
        choices=[CHARGE, CREDIT], description="A credit is for servers that others used."
    )
    resource = TextField(max_length=63, allow_null=True)
    unit = TextField(max_length=20, allow_null=True)
    server_owner = TextField(
        max_length=63, allow_null=True, description="Null is the pool; others by pseudonyms."
    )
    user = TextField(max_length=63)
    plan = TextField(max_length=300, allow_null=True)
    from_ = TimestampField()
    to = TimestampField()
    service_month = MonthField()
    amount = DecimalField(allow_null=True, description="Unit × seconds, exactly.")
    hours = DecimalField(allow_null=True, description="Unit × hours, to 12 digits.")
    price = DecimalField(allow_null=True, description="Null where several held.")
    charge = DecimalField(description="What the user pays.")
    fee = DecimalField(description="What of it the pool keeps.")
    billed = DecimalField(description="What it adds to this statement.")
    effective = DecimalField()
    entry = IdField(
        allow_null=True,
        description="Late entry of an adjustment that has only one; else `entries`.",
    )
    adjusts = MonthField(allow_null=True, description="The closed month that it changes.")
    note = TextField(max_length=2_000, allow_null=True)
    adjusted_kind = ChoiceField(
        choices=LineKind.values,
        allow_null=True,
        required=False,
        description="Kind of the billed lines that an adjustment or rerating changes.",
    )
    commitment = TextField(
        max_length=20, allow_null=True, required=False, description="Commitment of the price plan."
    )
    entries = ids_field(
        max_items=MAX_LINES,
        required=False,
        description="Late entries that caused the difference.",
    )


class TotalsDocument(Document):
    charges = DecimalField()
    credits = DecimalField()
    billed = DecimalField()
    effective = DecimalField()


class SavingsDocument(Document):
    alone_cost = DecimalField(allow_null=True)
    outside_cost = DecimalField(allow_null=True)
    paid = DecimalField()
    saved = DecimalField(allow_null=True)
    reason = ChoiceField(choices=list(REASONS), allow_null=True)
    why = TextField(max_length=300, allow_null=True)
    lost_hours = MapField(DecimalField(), names=TextField(max_length=63))
    definition = TextField(max_length=2_000)


class MethodDocument(Document):
    policy = TextField(max_length=63)
    mode = TextField(max_length=63)


class StatementDocument(Document):
    pool = SlugField()
    tenant = SlugField()
    month = MonthField()
    state = ChoiceField(choices=STATES)
    currency = CurrencyField()
    timezone = TextField(max_length=63)
    from_ = TimestampField()
    to = TimestampField()
    closed_at = TimestampField(allow_null=True)
    sequence = IntegerField(
        minimum=0,
        maximum=MAX_SEQUENCE,
        allow_null=True,
        required=False,
        description="Entries up to this number are in it.",
    )
    lines = ListField(LineDocument, min_items=0)
    totals = DocumentField(TotalsDocument)
    savings = DocumentField(SavingsDocument)
    method = DocumentField(
        MethodDocument,
        description="How it was decided; entries name the run, and each run has its certificate.",
    )
    notes = SchemaField(schema={"type": "array", "items": {"type": "string"}})


class GroupMonthDocument(Document):
    month = MonthField()
    group = SlugField()
    state = ChoiceField(choices=STATES)
    tenants = IntegerField(minimum=1, maximum=MAX_ACCOUNTS, description="How many are below it.")
    billed = DecimalField(allow_null=True, description="Null while the month is open.")
    currency = CurrencyField(source=Given("pool.currency"))
    closed_at = TimestampField(allow_null=True)


class GroupBelowDocument(TotalsDocument):
    group = SlugField()
    tenants = IntegerField(minimum=1, maximum=MAX_ACCOUNTS, description="How many are below it.")


class TenantOfGroupDocument(TotalsDocument):
    tenant = SlugField()
    group = SlugField(description="Its own group, at `tree_at`.")


class GroupStatementDocument(Document):
    pool = SlugField()
    group = SlugField()
    month = MonthField()
    state = ChoiceField(choices=STATES)
    currency = CurrencyField()
    timezone = TextField(max_length=63)
    from_ = TimestampField()
    to = TimestampField()
    closed_at = TimestampField(allow_null=True)
    tree_at = TimestampField(description="The tree just before this instant counts.")
    totals = DocumentField(TotalsDocument, description="The sum of the tenants below.")
    groups = ListField(
        GroupBelowDocument,
        min_items=0,
        max_items=MAX_ACCOUNTS,
        description="The groups directly below it, each with the sum of its tenants.",
    )
    tenants = ListField(
        TenantOfGroupDocument,
        min_items=0,
        max_items=MAX_ACCOUNTS,
        description="All tenants below it, at any level.",
    )
    definition = TextField(max_length=1_000)


class AccountDocument(Document):
    account = ChoiceField(choices=["tenant", "fee", "pool"])
    tenant = TextField(max_length=63, allow_null=True)
    billed = DecimalField()


class MissingDocument(Document):
    code = TextField(max_length=60)
    detail = TextField(max_length=300)


class MonthDocument(Document):
    pool = SlugField()
    month = MonthField()
    state = ChoiceField(choices=STATES)
    currency = CurrencyField()
    timezone = TextField(max_length=63)
    from_ = TimestampField()
    to = TimestampField()
    closed_at = TimestampField(allow_null=True)
    sequence = IntegerField(minimum=0, maximum=MAX_SEQUENCE, allow_null=True)
    previous_sequence = IntegerField(minimum=0, maximum=MAX_SEQUENCE, allow_null=True)
    missing = ListField(MissingDocument, min_items=0, description="What it lacks to be closed.")
    lines = IntegerField(minimum=0, maximum=MAX_LINES)
    accounts = ListField(AccountDocument, min_items=0, max_items=MAX_ACCOUNTS)
    sum = DecimalField(description="Of the accounts: 0.")


class SumDocument(Document):
    tenant = SlugField()
    resource = TextField(max_length=63)
    kind = TextField(max_length=10)
    rows = IntegerField(minimum=0, maximum=MAX_SEQUENCE)
    amount = DecimalField()


class ManifestDocument(Document):
    pool = SlugField()
    month = MonthField()
    sequence = IntegerField(minimum=0, maximum=MAX_SEQUENCE)
    previous_sequence = IntegerField(minimum=0, maximum=MAX_SEQUENCE)
    from_ = TimestampField()
    to = TimestampField()
    rows = IntegerField(minimum=0, maximum=MAX_SEQUENCE)
    sums = ListField(SumDocument, min_items=0)
    sha256 = PatternField(pattern="^[0-9a-f]{64}$", code="digest.syntax")
    entries = TextField(max_length=300, description="Where these entries are.")
    definition = TextField(max_length=1_000)


def statement_shown(content: bytes, *, pool: Pool, caller: Tenant | None) -> dict[str, Any]:
    """Return a stored statement as the caller may see it.

    A tenant sees others under pseudonyms, and no sequence: it counts what others used.
    """
    document: dict[str, Any] = orjson.loads(content)
    if caller is None:
        return document
    del document["sequence"]
    document["lines"] = [_line_shown(line, pool, caller) for line in document["lines"]]
    return document


def _line_shown(line: Mapping[str, Any], pool: Pool, caller: Tenant) -> dict[str, Any]:
    shown = dict(line)
    for name in ("server_owner", "user"):
        if shown[name] is not None:
            shown[name] = tenant_name(shown[name], pool=pool, caller=caller)
    return shown
