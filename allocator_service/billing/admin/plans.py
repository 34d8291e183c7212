"""Price plans and reratings in the admin, with a draft's preview on last month's usage."""

from decimal import Decimal
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from allocator_service.billing.models import (
    Exhausted,
    Increment,
    PlanState,
    PricePlan,
    Rate,
    Rerating,
)
from allocator_service.billing.plans.preview import plan_preview
from allocator_service.billing.plans.services import (
    PRICES,
    CommitmentDraft,
    FixedCostDraft,
    PlanDraft,
    RateDraft,
    SpotDraft,
    plan_create,
    plan_publish,
    plan_update,
)
from allocator_service.billing.plans.tiers import Tier, tiers_from
from allocator_service.billing.reratings import rerating_apply
from allocator_service.core.admin import ReadOnlyAdmin, ServiceAdmin
from allocator_service.core.clock import utc_now
from allocator_service.core.display import money_text
from allocator_service.core.errors import DomainError
from allocator_service.core.quantities import decimal_text, plain_decimal
from allocator_service.core.service_forms import ServiceForm
from allocator_service.tenants.models import Tenant

OWN_FIELDS = ("name", "start", "end", "fee", "increment", "exhausted")
INCREMENTS = {
    Increment.EXACT: "exact time",
    Increment.SECOND: "whole seconds, at least 60 for each usage event",
    Increment.HOUR: "whole hours, rounded up for each usage event",
}
EXHAUSTED = {
    Exhausted.EVENT: "an event reports it",
    Exhausted.BEST_EFFORT: "an event reports it, and the tenant gets only what others leave",
}


class PricesField(forms.CharField):
    """A field of prices, one resource a line.

    `cpu own=0.01 shared=0.04` is a line, and `on=slug` limits it to one owner's servers.
    """

    def __init__(self) -> None:
        super().__init__(
            widget=forms.Textarea(attrs={"rows": 5, "cols": 80}),
            help_text="One resource a line, prices per unit and hour: cpu own=0.01 shared=0.04"
            " pool=0.03 outside=0.12. With on=tenant: on that tenant's servers only. Graduated by the"
            " tenant's hours in the month: tiers=10000:0,0.02 is 0 through 10,000 hours, then 0.02.",
        )

    def to_python(self, value: Any) -> list[RateDraft]:  # type: ignore[override]
        text = super().to_python(value) or ""
        return [_rate(line) for line in text.splitlines() if line.strip()]


def _rate(line: str) -> RateDraft:
    resource, *parts = line.split()
    named = dict(part.partition("=")[::2] for part in parts)
    slug = named.pop("on", None)
    # The form refuses the character that no text of the database has only after it is read.
    is_text = slug is not None and "\0" not in slug
    owner = Tenant.objects.filter(slug=slug).first() if is_text else None
    if slug is not None and owner is None:
        raise ValidationError(f'No tenant has the slug "{slug}".')
    tiers = _tiers(line, named.pop("tiers", ""))
    unknown = named.keys() - PRICES.keys()
    if unknown or not (named or tiers):
        raise ValidationError(f"“{line}”: prices are own, shared, pool, outside and tiers.")
    prices = {PRICES[name]: plain_decimal(price) for name, price in named.items()}
    if None in prices.values():
        raise ValidationError(f"“{line}”: a price is a decimal such as 0.01.")
    return RateDraft(resource, owner, **prices, tiers=tiers)


def _tiers(line: str, text: str) -> list[Tier]:
    """Return tiers from text such as `10000:0,0.02`."""
    tiers = []
    for part in text.split(",") if text else ():
        through, separator, price = part.rpartition(":")
        end, number = plain_decimal(through), plain_decimal(price)
        if number is None or (separator and end is None):
            raise ValidationError(f"“{line}”: write tiers as 10000:0,0.02.")
        tiers.append(Tier(end, number))
    if any(tier.price < 0 for tier in tiers):
        raise ValidationError(f"“{line}”: a price is at least 0.")
    return tiers


def _line(rate: Rate) -> str:
    prices = [
        f"{name}={decimal_text(getattr(rate, column))}"
        for name, column in PRICES.items()
        if getattr(rate, column) is not None
    ]
    tiers = tiers_from(rate.tiers)
    if tiers:
        texts = [
            f"{'' if tier.through is None else decimal_text(tier.through) + ':'}"
            f"{decimal_text(tier.price)}"
            for tier in tiers
        ]
        prices.append(f"tiers={','.join(texts)}")
    owner = [] if rate.owner is None else [f"on={rate.owner.slug}"]
    return " ".join([rate.resource, *owner, *prices])


class PlanForm(ServiceForm):
    prices = PricesField()

    class Meta:
        model = PricePlan
        fields = ["pool", *OWN_FIELDS]
        labels: ClassVar = {
            "increment": "Billed time",
            "exhausted": "When service units run out",
        }
        help_texts: ClassVar = {
            "fee": "Part of shared prices that the pool keeps, from 0 to 1, such as 0.05 for 5 %.",
            "increment": "How the time of a usage event is rounded. A pool that meters its decisions"
            " takes the exact time only.",
            "exhausted": "What happens when a tenant has used all the service units that were granted"
            " to it. Tenants without grants are not concerned.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, texts in (("increment", INCREMENTS), ("exhausted", EXHAUSTED)):
            if name in self.fields:  # absent for a published plan
                self.fields[name].choices = list(texts.items())  # type: ignore[attr-defined]
        if not self.adding:
            rates = self.instance.rates.select_related("owner")
            self.initial["prices"] = "\n".join(_line(rate) for rate in rates)

    def perform(self, cleaned: dict[str, Any]) -> PricePlan:
        own = {name: cleaned[name] for name in OWN_FIELDS}
        if self.adding:
            draft = PlanDraft(**own, rates=cleaned["prices"])
            return plan_create(pool=cleaned["pool"], draft=draft, now=utc_now())
        draft = PlanDraft(**own, rates=cleaned["prices"], **_other_parts(self.instance))
        return plan_update(plan=self.instance, draft=draft, version=None, now=utc_now())


def _other_parts(plan: PricePlan) -> dict[str, Any]:
    """Return the parts of a plan that this form does not edit, which stay as REST has written them."""
    tenants = Tenant.objects.in_bulk(
        [key for cost in plan.fixed_costs.all() for key, _ in cost.tenants]
    )
    return {
        "spot_prices": [
            SpotDraft(each.resource, each.kind, each.start, each.end, each.price)
            for each in plan.spot_prices.all()
        ],
        "commitments": [
            CommitmentDraft(
                each.tenant,
                each.resource,
                each.quantity,
                each.price,
                each.start,
                each.end,
                each.upfront,
            )
            for each in plan.commitments.select_related("tenant")
        ],
        "fixed_costs": [
            FixedCostDraft(
                cost.name,
                cost.amount,
                [(tenants[key], Decimal(share)) for key, share in cost.tenants],
            )
            for cost in plan.fixed_costs.all()
        ],
        "unit_weights": {each.resource: each.weight for each in plan.unit_weights.all()},
    }


@admin.register(PricePlan)
class PricePlanAdmin(ServiceAdmin):
    form = PlanForm
    list_display = ["name", "pool", "state", "number", "start", "end", "fee", "preview_link"]
    list_filter = ["state", "pool"]
    search_fields = ["name", "pool__slug"]
    search_place = 8
    list_select_related = ["pool"]
    autocomplete_fields = ["pool"]
    actions = ["publish", "rerate"]
    texts_of: ClassVar = {"increment": INCREMENTS.__getitem__, "exhausted": EXHAUSTED.__getitem__}
    ordering = ["-id"]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        editable = obj is None or obj.state == PlanState.DRAFT
        return editable and super().has_change_permission(request, obj)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["pool", "state", "number", "published_at", "present_prices"] if obj else []

    @admin.display(description="present prices")
    def present_prices(self, plan: PricePlan) -> SafeString:
        lines = [(_line(rate),) for rate in plan.rates.select_related("owner")]
        return format_html_join(mark_safe("<br>"), "{}", lines)

    def get_urls(self) -> list[URLPattern]:
        preview = path(
            "<uuid:pk>/preview/",
            self.admin_site.admin_view(self.preview),
            name="billing_priceplan_preview",
        )
        return [preview, *super().get_urls()]

    @admin.display(description="on last month")
    def preview_link(self, plan: PricePlan) -> SafeString:
        return format_html(
            '<a href="{}">Preview</a>', reverse("admin:billing_priceplan_preview", args=[plan.pk])
        )

    def preview(self, request: HttpRequest, pk: Any) -> HttpResponse:
        """Show the charges of a plan on last month's usage, and publish a draft."""
        plan = self.of_theirs(request, PricePlan, pk=pk)
        if not self.has_view_permission(request, plan):
            raise PermissionDenied
        publishable = self.has_change_permission(request, plan)
        if request.method == "POST":
            if not publishable:
                raise PermissionDenied
            try:
                plan_publish(plan=plan, version=None, now=utc_now())
            except DomainError as error:
                self.message_user(request, error.detail, messages.ERROR)
            else:
                self.message_user(request, f"Published: {plan}.", messages.SUCCESS)
                return redirect("admin:billing_priceplan_changelist")
        preview = plan_preview(plan=plan, now=utc_now())
        context = {
            **self.admin_site.each_context(request),
            "title": f"{plan} on last month's usage",
            "plan": plan,
            "preview": preview,
            "month": str(preview.month),
            "publishable": publishable,
        }
        return render(request, "admin/billing/priceplan/preview.html", context)

    @admin.action(
        description="Publish: the plan stays as it is from then on", permissions=["change"]
    )
    def publish(self, request: HttpRequest, queryset: QuerySet[PricePlan]) -> None:
        now = utc_now()
        self.apply_to_each(
            request,
            queryset,
            lambda plan: plan_publish(plan=plan, version=None, now=now),
            "published",
        )

    @admin.action(
        description="Rerate closed months by the draft (needs a reason)", permissions=["change"]
    )
    def rerate(self, request: HttpRequest, queryset: QuerySet[PricePlan]) -> None:
        now, reason = utc_now(), request.POST.get("reason", "")
        self.apply_to_each(
            request,
            queryset.select_related("pool"),
            lambda plan: rerating_apply(pool=plan.pool, plan=plan, reason=reason, now=now),
            "applied to closed months",
        )


@admin.register(Rerating)
class ReratingAdmin(ReadOnlyAdmin):
    appears = "A rerating appears when a draft of a price plan is applied to closed months."
    list_display = ["created_at", "pool", "plan", "month", "reason"]
    list_filter = ["pool"]
    list_select_related = ["pool", "plan"]
    exclude: ClassVar = ["changes"]
    readonly_fields: ClassVar = ["differences"]

    @admin.display(description="changes")
    def differences(self, rerating: Rerating) -> SafeString:
        """Return the changes that the plan makes to the charges of closed months, by tenant."""
        currency = rerating.pool.currency or ""
        lines = (
            (
                each["tenant"],
                money_text(each["before"]),
                money_text(each["after"], currency),
                money_text(each["difference"], currency),
            )
            for each in rerating.changes
        )
        return format_html_join(mark_safe("<br>"), "{}: {} → {}, a difference of {}", lines)
