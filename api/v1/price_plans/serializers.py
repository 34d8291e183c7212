"""Price plans as documents."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from allocator_service.billing.models import (
    Exhausted,
    Increment,
    PlanState,
    PriceKind,
    PricePlan,
)
from allocator_service.billing.plans.services import (
    PRICES,
    CommitmentDraft,
    FixedCostDraft,
    PlanDraft,
    RateDraft,
    SpotDraft,
)
from allocator_service.billing.plans.tiers import MAX_TIERS, Tier, tiers_from
from allocator_service.core.errors import FieldError, Unacceptable
from allocator_service.core.quantities import decimal_text
from allocator_service.pools.services import MAX_RESOURCES
from allocator_service.tenants.models import Tenant
from allocator_service.tenants.selectors import tenants_for, tenants_with_retired
from api.contract.fields import IdField, SlugField, TimestampField, VersionField
from api.contract.money import CurrencyField, DecimalField, PriceField
from api.contract.parameters import PageParameters
from api.pseudonyms import tenant_name
from policies.fields import (
    ChoiceField,
    Document,
    ListField,
    MapField,
    TextField,
)

MAX_PARTS = 2_000


class PlanParameters(PageParameters):
    pool = SlugField(required=False, description="Plans of the pool with this slug only.")
    state = ChoiceField(
        choices=PlanState.values,
        required=False,
        description="Plans in this state only; a tenant key sees no drafts.",
    )


class TierFields(Document):
    through = PriceField(
        required=False,
        allow_null=True,
        what="The hours of a tier",
        description="Hours of the tenant in the month through which the price holds; null in the last.",
    )
    price = PriceField()


class TierDocument(Document):
    through = DecimalField(allow_null=True)
    price = DecimalField()


class RateFields(Document):
    resource = TextField(max_length=63)
    owner = SlugField(
        required=False, allow_null=True, description="On this tenant's servers; else on all."
    )
    own = PriceField(required=False, allow_null=True, description="On servers of one's own.")
    shared = PriceField(required=False, allow_null=True, description="On other tenants' servers.")
    pool = PriceField(required=False, allow_null=True, description="On the pool's servers.")
    outside = PriceField(required=False, allow_null=True, description="What it costs elsewhere.")
    tiers = ListField(
        TierFields,
        min_items=0,
        max_items=MAX_TIERS,
        default=list,
        description="Graduated price where `own`, `shared` or `pool` is null: by the tenant's hours of"
        " the resource in the month, in the order of the ledger.",
    )


class SpotFields(Document):
    resource = TextField(max_length=63)
    kind = ChoiceField(choices=PriceKind.values)
    from_ = TimestampField()
    to = TimestampField()
    price = PriceField()


class CommitmentFields(Document):
    tenant = SlugField()
    resource = TextField(max_length=63)
    quantity = PriceField(description="Units, all the while.")
    price = PriceField(description="Per unit and hour.")
    upfront = PriceField(default="0", description="Paid in the first month.")
    from_ = TimestampField()
    to = TimestampField()


class ShareFields(Document):
    tenant = SlugField()
    share = PriceField(default="1")


class FixedCostFields(Document):
    name = TextField(max_length=200)
    amount = PriceField(description="Per month.")
    shares = ListField(ShareFields, max_items=MAX_PARTS)


class PlanRequest(Document):
    pool = SlugField()
    name = TextField(max_length=200)
    from_ = TimestampField()
    to = TimestampField(
        required=False, allow_null=True, description="Exclusive; null is until the next plan."
    )
    currency = CurrencyField(
        required=False, allow_null=True, description="The pool's, for certainty."
    )
    fee = PriceField(default="0", description="The part of shared prices that the pool keeps.")
    increment = ChoiceField(
        choices=Increment.values,
        default="exact",
        description="Steps in which the time of usage events counts.",
    )
    rates = ListField(RateFields, min_items=0, max_items=MAX_PARTS, default=list)
    spot_prices = ListField(SpotFields, min_items=0, max_items=MAX_PARTS, default=list)
    commitments = ListField(CommitmentFields, min_items=0, max_items=MAX_PARTS, default=list)
    fixed_costs = ListField(FixedCostFields, min_items=0, max_items=100, default=list)
    unit_weights = MapField(
        PriceField(),
        names=TextField(max_length=63),
        max_items=MAX_RESOURCES,
        default=dict,
        description="Service units per unit and second.",
    )
    exhausted = ChoiceField(
        choices=Exhausted.values, default="event", description="When service units are used up."
    )


class RateDocument(Document):
    resource = TextField(max_length=63)
    owner = TextField(max_length=63, allow_null=True)
    own = DecimalField(allow_null=True)
    shared = DecimalField(allow_null=True)
    pool = DecimalField(allow_null=True)
    outside = DecimalField(allow_null=True)
    tiers = ListField(TierDocument, min_items=0, max_items=MAX_TIERS)


class SpotDocument(Document):
    resource = TextField(max_length=63)
    kind = ChoiceField(choices=PriceKind.values)
    from_ = TimestampField()
    to = TimestampField()
    price = DecimalField()


class CommitmentDocument(Document):
    tenant = SlugField()
    resource = TextField(max_length=63)
    quantity = DecimalField()
    price = DecimalField()
    upfront = DecimalField()
    from_ = TimestampField()
    to = TimestampField()


class ShareDocument(Document):
    tenant = SlugField()
    share = DecimalField()


class FixedCostDocument(Document):
    name = TextField(max_length=200)
    amount = DecimalField()
    shares = ListField(ShareDocument, min_items=0, max_items=MAX_PARTS)


class PlanDocument(Document):
    id = IdField()
    pool = SlugField()
    name = TextField(max_length=200)
    state = ChoiceField(
        choices=PlanState.values, description="`rerated` replaces prices of closed months."
    )
    number = VersionField(allow_null=True)
    from_ = TimestampField()
    to = TimestampField(allow_null=True)
    currency = CurrencyField()
    fee = DecimalField()
    increment = ChoiceField(choices=Increment.values)
    rates = ListField(RateDocument, min_items=0, max_items=MAX_PARTS)
    spot_prices = ListField(SpotDocument, min_items=0, max_items=MAX_PARTS)
    commitments = ListField(CommitmentDocument, min_items=0, max_items=MAX_PARTS)
    fixed_costs = ListField(FixedCostDocument, min_items=0, max_items=100)
    unit_weights = MapField(DecimalField(), names=TextField(max_length=63), max_items=MAX_RESOURCES)
    exhausted = ChoiceField(choices=Exhausted.values)
    version = VersionField()
    created_at = TimestampField()
    published_at = TimestampField(allow_null=True)


def plan_document(plan: PricePlan, *, caller: Tenant | None) -> dict[str, Any]:
    """A plan as the caller may see it: a tenant sees its own commitments and shares only."""
    return {
        "id": plan.pk,
        **plan_fields(plan, caller=caller),
        "state": plan.state,
        "number": plan.number,
        "version": plan.version,
        "created_at": plan.created_at,
        "published_at": plan.published_at,
    }


def plan_fields(plan: PricePlan, *, caller: Tenant | None = None) -> dict[str, Any]:
    """What a merge-patch changes."""

    def text(amount: Decimal | None) -> str | None:
        return None if amount is None else decimal_text(amount)

    def named(tenant: Tenant | None) -> str | None:
        if tenant is None:
            return None
        return tenant_name(tenant.slug, pool=plan.pool, caller=caller)

    return {
        "pool": plan.pool.slug,
        "name": plan.name,
        "from": _text(plan.start),
        "to": None if plan.end is None else _text(plan.end),
        "currency": plan.pool.currency,
        "fee": text(plan.fee),
        "increment": plan.increment,
        "rates": [
            {
                "resource": rate.resource,
                "owner": named(rate.owner),
                **{name: text(getattr(rate, column)) for name, column in PRICES.items()},
                "tiers": [
                    {"through": text(tier.through), "price": text(tier.price)}
                    for tier in tiers_from(rate.tiers)
                ],
            }
            for rate in plan.rates.all()
        ],
        "spot_prices": [
            {
                "resource": spot.resource,
                "kind": spot.kind,
                "from": _text(spot.start),
                "to": _text(spot.end),
                "price": text(spot.price),
            }
            for spot in plan.spot_prices.all()
        ],
        "commitments": [
            {
                "tenant": each.tenant.slug,
                "resource": each.resource,
                "quantity": text(each.quantity),
                "price": text(each.price),
                "upfront": text(each.upfront),
                "from": _text(each.start),
                "to": _text(each.end),
            }
            for each in plan.commitments.all()
            if caller is None or each.tenant_id == caller.pk
        ],
        "fixed_costs": _fixed_costs(plan, caller),
        "unit_weights": {each.resource: text(each.weight) for each in plan.unit_weights.all()},
        "exhausted": plan.exhausted,
    }


def _text(instant: Any) -> str:
    return str(instant.isoformat().replace("+00:00", "Z"))


def _fixed_costs(plan: PricePlan, caller: Tenant | None) -> list[dict[str, Any]]:
    costs = list(plan.fixed_costs.all())
    keys = {key for cost in costs for key, _ in cost.tenants}
    if caller is not None:
        keys &= {caller.pk}
    slugs = (
        dict(tenants_with_retired().filter(pk__in=keys).values_list("pk", "slug")) if keys else {}
    )
    return [
        {
            "name": cost.name,
            "amount": decimal_text(cost.amount),
            "shares": [
                {"tenant": slugs[key], "share": share}
                for key, share in cost.tenants
                if key in slugs
            ],
        }
        for cost in costs
        if caller is None or any(key in slugs for key, _ in cost.tenants)
    ]


def plan_draft(fields: Mapping[str, Any]) -> PlanDraft:
    """The draft that a request's fields spell. Raises `Unacceptable` for tenants that are not there."""
    tenants = _tenants(fields)
    return PlanDraft(
        name=fields["name"],
        start=fields["from"],
        end=fields["to"],
        currency=fields["currency"],
        fee=Decimal(fields["fee"]),
        increment=fields["increment"],
        exhausted=fields["exhausted"],
        rates=[
            RateDraft(
                rate["resource"],
                tenants.get(rate["owner"]),
                **{column: rate[name] for name, column in PRICES.items()},
                tiers=[Tier(tier["through"], tier["price"]) for tier in rate["tiers"]],
            )
            for rate in fields["rates"]
        ],
        spot_prices=[
            SpotDraft(spot["resource"], spot["kind"], spot["from"], spot["to"], spot["price"])
            for spot in fields["spot_prices"]
        ],
        commitments=[
            CommitmentDraft(
                tenants[each["tenant"]],
                each["resource"],
                each["quantity"],
                each["price"],
                each["from"],
                each["to"],
                Decimal(each["upfront"]),
            )
            for each in fields["commitments"]
        ],
        fixed_costs=[
            FixedCostDraft(
                cost["name"],
                cost["amount"],
                [(tenants[share["tenant"]], Decimal(share["share"])) for share in cost["shares"]],
            )
            for cost in fields["fixed_costs"]
        ],
        unit_weights=fields["unit_weights"],
    )


def _tenants(fields: Mapping[str, Any]) -> dict[str, Tenant]:
    named = {
        **{f"/rates/{n}/owner": rate["owner"] for n, rate in enumerate(fields["rates"])},
        **{f"/commitments/{n}/tenant": c["tenant"] for n, c in enumerate(fields["commitments"])},
        **{
            f"/fixed_costs/{n}/shares/{m}/tenant": share["tenant"]
            for n, cost in enumerate(fields["fixed_costs"])
            for m, share in enumerate(cost["shares"])
        },
    }
    slugs = {slug for slug in named.values() if slug is not None}
    found = {tenant.slug: tenant for tenant in tenants_for(None).filter(slug__in=slugs)}
    errors = [
        FieldError(pointer, "tenant.unknown", f'No tenant has the slug "{slug}".')
        for pointer, slug in named.items()
        if slug is not None and slug not in found
    ]
    if errors:
        raise Unacceptable(errors[0].detail, code=errors[0].code, errors=errors[:20])
    return found
