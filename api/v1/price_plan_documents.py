"""Documents of price plans, and the drafts that requests describe."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from allocator_service.billing.models import (
    Commitment,
    Exhausted,
    FixedCost,
    Increment,
    PlanState,
    PriceKind,
    PricePlan,
    Rate,
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
from api.contract import documents
from api.contract.parameters import PageParameters
from api.pseudonyms import tenant_name

MAX_PARTS = 2_000


class TierDocument(documents.Document):
    through = documents.DecimalField(
        allow_null=True,
        writable={
            "required": False,
            "what": "The hours of a tier",
            "description": "Hours of the tenant in the month through which the price holds; null in"
            " the last.",
        },
    )
    price = documents.DecimalField(writable=True)


def _price(description: str, *, source: str = "") -> documents.DecimalField:
    """Describe a price that a rate may lack."""
    return documents.DecimalField(
        allow_null=True,
        source=source,
        writable={"required": False, "description": description},
    )


def _owner(rate: Rate, context: Any) -> str | None:
    if rate.owner is None:
        return None
    return tenant_name(rate.owner.slug, pool=rate.plan.pool, caller=context.reader)


class RateDocument(documents.Document):
    resource = documents.TextField(max_length=63, writable=True)
    owner = documents.TextField(
        max_length=63,
        allow_null=True,
        source=_owner,
        # An answer may have a pseudonym here, which is no slug.
        writable=documents.SlugField(
            required=False, allow_null=True, description="On this tenant's servers; else on all."
        ),
    )
    own = _price("On servers of one's own.")
    shared = _price("On other tenants' servers.")
    pool = _price("On the pool's servers.", source="pooled")
    outside = _price("What it costs elsewhere.")
    tiers = documents.ListField(
        TierDocument,
        min_items=0,
        max_items=MAX_TIERS,
        source=lambda rate, _: tiers_from(rate.tiers),
        writable={
            "default": list,
            "description": "Graduated price where `own`, `shared` or `pool` is null: by the tenant's"
            " hours of the resource in the month, in the order of the ledger.",
        },
    )


class SpotDocument(documents.Document):
    resource = documents.TextField(max_length=63, writable=True)
    kind = documents.ChoiceField(choices=PriceKind.values, writable=True)
    from_ = documents.TimestampField(source="start", writable=True)
    to = documents.TimestampField(source="end", writable=True)
    price = documents.DecimalField(writable=True)


class CommitmentDocument(documents.Document):
    tenant = documents.SlugField(source="tenant.slug", writable=True)
    resource = documents.TextField(max_length=63, writable=True)
    quantity = documents.DecimalField(writable={"description": "Units, all the while."})
    price = documents.DecimalField(writable={"description": "Per unit and hour."})
    upfront = documents.DecimalField(
        writable={"default": "0", "description": "Paid in the first month."}
    )
    from_ = documents.TimestampField(source="start", writable=True)
    to = documents.TimestampField(source="end", writable=True)


class ShareDocument(documents.Document):
    tenant = documents.SlugField(writable=True)
    share = documents.DecimalField(writable={"default": "1"})


class FixedCostDocument(documents.Document):
    name = documents.TextField(max_length=200, writable=True)
    amount = documents.DecimalField(writable={"description": "Per month."})
    shares = documents.ListField(
        ShareDocument, max_items=MAX_PARTS, min_items=0, writable={"min_items": 1}
    )


def _commitments(plan: PricePlan, context: Any) -> list[Commitment]:
    """Return the commitments of a plan that the reader may see."""
    reader = context.reader
    return [
        each for each in plan.commitments.all() if reader is None or each.tenant_id == reader.pk
    ]


def _fixed_costs(plan: PricePlan, context: Any) -> list[dict[str, Any]]:
    """Return the documents of the fixed costs and shares that the reader may see."""
    costs = list(plan.fixed_costs.all())
    keys = {key for cost in costs for key, _ in cost.tenants}
    if context.reader is not None:
        # Before slugs are read: a tenant sees which part of a cost is its own, and not who else
        # shares it.
        keys &= {context.reader.pk}
    # A plan of the past names tenants that are retired since.
    found = tenants_with_retired().filter(pk__in=keys)
    slugs = dict(found.values_list("pk", "slug")) if keys else {}
    return [
        _fixed_cost(cost, slugs)
        for cost in costs
        if context.reader is None or any(key in slugs for key, _ in cost.tenants)
    ]


def _fixed_cost(cost: FixedCost, slugs: Mapping[int, str]) -> dict[str, Any]:
    shares = [{"tenant": slugs[key], "share": share} for key, share in cost.tenants if key in slugs]
    return {"name": cost.name, "amount": decimal_text(cost.amount), "shares": shares}


class PlanDocument(documents.Document):
    id = documents.IdField()
    pool = documents.SlugField(source="pool.slug", writable=True)
    name = documents.TextField(max_length=200, writable=True)
    state = documents.ChoiceField(
        choices=PlanState.values, description="`rerated` replaces prices of closed months."
    )
    number = documents.VersionField(allow_null=True)
    from_ = documents.TimestampField(source="start", writable=True)
    to = documents.TimestampField(
        source="end",
        allow_null=True,
        writable={"required": False, "description": "Exclusive; null is until the next plan."},
    )
    currency = documents.CurrencyField(
        source="pool.currency",
        writable={
            "required": False,
            "allow_null": True,
            "description": "The pool's, for certainty.",
        },
    )
    fee = documents.DecimalField(
        writable={
            "default": "0",
            "description": "The part of shared prices that the pool keeps.",
        }
    )
    increment = documents.ChoiceField(
        choices=Increment.values,
        writable={
            "default": "exact",
            "description": "Steps in which the time of usage events counts.",
        },
    )
    rates = documents.ListField(
        RateDocument,
        min_items=0,
        max_items=MAX_PARTS,
        source=lambda plan, _: plan.rates.all(),
        writable={"default": list},
    )
    spot_prices = documents.ListField(
        SpotDocument,
        min_items=0,
        max_items=MAX_PARTS,
        source=lambda plan, _: plan.spot_prices.all(),
        writable={"default": list},
    )
    commitments = documents.ListField(
        CommitmentDocument,
        min_items=0,
        max_items=MAX_PARTS,
        source=_commitments,
        writable={"default": list},
    )
    fixed_costs = documents.ListField(
        FixedCostDocument,
        min_items=0,
        max_items=100,
        source=_fixed_costs,
        writable={"default": list},
    )
    unit_weights = documents.MapField(
        documents.DecimalField(writable=True),
        names=documents.TextField(max_length=63),
        max_items=MAX_RESOURCES,
        source=lambda plan, _: {each.resource: each.weight for each in plan.unit_weights.all()},
        writable={"default": dict, "description": "Service units per unit and second."},
    )
    exhausted = documents.ChoiceField(
        choices=Exhausted.values,
        writable={"default": "event", "description": "When service units are used up."},
    )
    version = documents.VersionField()
    created_at = documents.TimestampField()
    published_at = documents.TimestampField(allow_null=True)


PlanRequest = PlanDocument.writable("PlanRequest")


class PlanParameters(PageParameters):
    pool = documents.SlugField(required=False, description="Plans of the pool with this slug only.")
    state = documents.ChoiceField(
        choices=PlanState.values,
        required=False,
        description="Plans in this state only; a tenant key sees no drafts.",
    )


def plan_draft(fields: Mapping[str, Any]) -> PlanDraft:
    """Return the draft in the fields of a request. Raises `Unacceptable` for unknown tenants."""
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
    """Return the tenants that a request names, by slug. Raises `Unacceptable`."""
    named = {
        **{f"/rates/{n}/owner": rate["owner"] for n, rate in enumerate(fields["rates"])},
        **{f"/commitments/{n}/tenant": c["tenant"] for n, c in enumerate(fields["commitments"])},
        **{
            f"/fixed_costs/{n}/shares/{m}/tenant": share["tenant"]
            for n, cost in enumerate(fields["fixed_costs"])
            for m, share in enumerate(cost["shares"])
        },
    }
    # All places at once, by one statement, so that every unknown slug is named in one answer.
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
