"""Dated amounts of groups and members, such as limits, on the pages of tenants and groups."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.urls import reverse
from django.utils import timezone

from allocator_service.allocation.trees import Fulfilment, NodeAmount, TreeNode
from allocator_service.core.dates import date_validator
from allocator_service.core.display import percent_text, unit_text
from allocator_service.core.errors import DomainError
from allocator_service.core.quantities import Resource, pointer_token
from allocator_service.core.service_forms import add_refusal
from allocator_service.pools.limits import Limit, limits_from, selector_text
from allocator_service.pools.models import GroupTerms, MembershipTerms, Pool
from allocator_service.workloads.reason_texts import Reader, stopped_text
from api.contract.documents import read_document
from api.pages.workload_forms import selector_of_lines
from api.v1.limits import LimitDocument, limits_read

# A part above this is everything, apart from the last digits of a float.
_ALL = 1 - 1e-6
NOW, LATER, OVER = "now", "later", "over"
_LONGEST = 60
Terms = GroupTerms | MembershipTerms
LimitEntry = LimitDocument.writable("LimitEntry")


@dataclass(frozen=True)
class AmountKind:
    """A kind of amount that groups and members have.

    `field` is its name in terms, in the settings of services and in a decision's tree, `plural` that
    of several. `most` introduces an amount, `whose` follows it, and `use` follows what a decision
    allocates of it. `is_set_here` is false for a kind that operators alone set.
    """

    field: str
    plural: str
    most: str
    whose: str = ""
    use: str = "allocated now"
    is_set_here: bool = True


GUARANTEE = AmountKind("guarantee", "guarantees", "At least", is_set_here=False)
KINDS = (
    AmountKind("limit", "limits", "At most"),
    GUARANTEE,
    AmountKind(
        "lend", "loans", "At most", whose="for others", use="in use by others", is_set_here=False
    ),
)


@dataclass(frozen=True)
class AmountPart:
    """The amount of one resource, and what a decision allocates of it, None if not known."""

    resource: Resource
    amount: Decimal
    has: float | None

    @property
    def fraction(self) -> float | None:
        """The allocated part, None if it is not known or the amount is 0."""
        return None if self.has is None or not self.amount else self.has / float(self.amount)


@dataclass(frozen=True)
class AmountRow:
    """An amount of a node as a table has it.

    `parts` are its amounts with what the decision in force allocates of them below the node. Without
    any it is the guarantee of own servers. `met` states whether a guarantee is met, empty if not known.
    `state` is now, later or over. `position` is that in the node's list.
    """

    kind: AmountKind
    whose: str
    href: str
    position: int
    servers: str
    parts: Sequence[AmountPart]
    met: str
    start: datetime | None
    end: datetime | None
    state: str


def amount_rows(
    terms: Terms,
    node: TreeNode | None,
    *,
    resources: Sequence[Resource],
    now: datetime,
    whose: str = "",
    href: str = "",
    known: Collection[str] | None = None,
) -> list[AmountRow]:
    """Return the present amounts of a node of every kind, those that are over last.

    `node` is that of the decision in force, None if it has none. `known` are the groups that the
    reader may know, None for all.
    """
    rows = [
        _row(
            kind,
            position,
            limit,
            _decided(getattr(node, kind.field, ()), limit, now),
            resources,
            now,
            known,
        )
        for kind in KINDS
        for position, limit in enumerate(limits_from(getattr(terms, kind.field, ())))
    ]
    own = None if node is None else node.own_servers
    if own is not None:
        nothing = Limit(amount={})
        rows.append(_row(GUARANTEE, -1, nothing, own, resources, now, known))
    named = [replace(row, whose=whose, href=href) for row in rows]
    return sorted(named, key=lambda row: row.state == OVER)


def _decided(decided: Iterable[NodeAmount], limit: Limit, now: datetime) -> NodeAmount | None:
    """Return an amount as the decision in force took it into account, None if it did not."""
    if not limit.is_in_force(now):
        return None
    return next((each for each in decided if _is_same(each, limit)), None)


def _row(
    kind: AmountKind,
    position: int,
    limit: Limit,
    decided: NodeAmount | Fulfilment | None,
    resources: Sequence[Resource],
    now: datetime,
    known: Collection[str] | None,
) -> AmountRow:
    state = NOW if limit.is_in_force(now) else LATER
    if limit.end is not None and limit.end <= now:
        state = OVER
    has = decided.has if isinstance(decided, NodeAmount) else None
    parts = [
        AmountPart(each, limit.amount[each.name], None if has is None else has[each.name])
        for each in resources
        if each.name in limit.amount
    ]
    return AmountRow(
        kind=kind,
        whose="",
        href="",
        position=position,
        servers=selector_text(limit.where),
        parts=parts,
        met=_met_text(decided, parts, known),
        start=limit.start,
        end=limit.end,
        state=state,
    )


def _met_text(
    decided: NodeAmount | Fulfilment | None,
    parts: Sequence[AmountPart],
    known: Collection[str] | None,
) -> str:
    """Return whether the decision in force meets a guarantee, empty for another amount."""
    if not isinstance(decided, Fulfilment) or decided.met is None:
        return ""
    is_used = all(part.fraction is None or part.fraction > _ALL for part in parts)
    if decided.met < 1:
        missed = "not met"
        if parts and is_used:
            # Other workloads of the node have more than their part.
            missed = f"a workload has {percent_text(decided.met)} of its part"
        return f"{missed}: {stopped_text(decided.limited_by or (), Reader(groups=known))}"
    return "met" if is_used else "met: the workloads below can use no more of it"


def _is_same(decided: NodeAmount, limit: Limit) -> bool:
    amounts = {name: float(amount) for name, amount in limit.amount.items()}
    # A decision has no keys of amounts: they are the same if they mean the same.
    return decided.amount == amounts and _values(decided.where) == _values(limit.where)


def _values(selector: Mapping[str, Any]) -> dict[str, set[str]]:
    return {
        label: {values} if isinstance(values, str) else set(values)
        for label, values in selector.items()
    }


@dataclass(frozen=True)
class AmountsOfKind:
    """The amounts of one kind of a node below a group, and the address at which they are changed.

    The address is empty for a kind that operators alone set.
    """

    kind: AmountKind
    rows: Sequence[AmountRow]
    href: str


def amounts_by_kind(rows: Sequence[AmountRow], *, page: str, slug: str) -> list[AmountsOfKind]:
    """Return the amounts of a node by kind. `page` is the name of the route of its own page."""
    found = [
        AmountsOfKind(
            kind,
            [row for row in rows if row.kind == kind],
            reverse(f"{page}-{kind.plural}", args=[slug]) if kind.is_set_here else "",
        )
        for kind in KINDS
    ]
    # Groups lend nothing, and few members limit what they lend.
    return [each for each in found if each.rows or each.kind.field != "lend"]


class AmountForm(forms.Form):
    """One more amount of a node, whose terms must still be at the version that was read.

    `entries` of a valid form holds it.
    """

    entries: list[Limit]

    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
    servers = forms.CharField(
        required=False,
        max_length=10_000,
        label="Only on servers with labels",
        help_text="One label=value per line. Repeat a label to accept several of its values. Empty: all"
        " servers.",
        widget=forms.Textarea(attrs={"rows": 2}),
    )

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        pool: Pool,
        resources: Sequence[Resource],
        kind: AmountKind,
        version: int,
    ) -> None:
        super().__init__(data, initial={"version": version}, label_suffix="")
        self._pool, self._resources, self._kind = pool, resources, kind
        # A policy that sees one server has no servers for an amount to name.
        if not pool.policy_places:
            del self.fields["servers"]
        for position, resource in enumerate(resources):
            self.fields[f"amount_{position}"] = forms.CharField(
                required=False,
                max_length=_LONGEST,
                label=f"{resource.name}, {kind.most.lower()}",
                help_text=f"In {unit_text(resource.unit) or resource.name}. Empty: no {kind.field}.",
                widget=forms.TextInput(attrs={"inputmode": "decimal"}),
            )
        for name, field, label, empty in (
            ("start", "from", "From", "now"),
            ("end", "to", "Until", "until it is removed"),
        ):
            self.fields[name] = forms.DateTimeField(
                required=False,
                # Old clocks have offsets with seconds, with which a request would not be readable.
                validators=[date_validator(field)],
                label=label,
                help_text=f"In the pool's time zone, {pool.timezone}. Empty: {empty}.",
                widget=forms.DateTimeInput(
                    attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"
                ),
            )
        amounts = [f"amount_{position}" for position, _ in enumerate(resources)]
        self.order_fields(["version", *amounts, "servers", "start", "end"])

    def clean_servers(self) -> dict[str, str | list[str]]:
        """Return the labels, one `label=value` on each line."""
        return selector_of_lines(self.cleaned_data["servers"])

    def full_clean(self) -> None:
        """Read dates by the clock of the pool."""
        with timezone.override(ZoneInfo(self._pool.timezone)):
            super().full_clean()

    def clean(self) -> dict[str, Any]:
        """Read the fields as the API does, so that both refuse the same."""
        cleaned: dict[str, Any] = super().clean() or {}
        if self.errors:
            return cleaned
        try:
            row = read_document(LimitEntry, self._document(cleaned))
            self.entries = limits_read([row], self._resources, pointer="") or []
        except DomainError as error:
            self.refused(error)
        else:
            if not row["amount"]:
                self.add_error(None, "Enter an amount of at least one resource.")
        return cleaned

    def refused(self, error: DomainError) -> None:
        """Put the errors of the service beside the fields that they name."""
        add_refusal(self, error, self._field_of)

    def _document(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        amount = {
            resource.name: text
            for position, resource in enumerate(self._resources)
            if (text := cleaned[f"amount_{position}"].strip())
        }
        dates = {
            name: cleaned[field].isoformat()
            for name, field in (("from", "start"), ("to", "end"))
            if cleaned[field] is not None
        }
        return {"where": cleaned.get("servers", {}), "amount": amount, **dates}

    def _field_of(self, pointer: str) -> str | None:
        # Errors of the service name the entry in the list of the node first.
        parts = [part for part in pointer.split("/")[1:] if not part.isdecimal()]
        # The form's own reading has no such list around the entry.
        parts = parts[1:] if parts[:1] == [self._kind.field] else parts
        for position, resource in enumerate(self._resources):
            if parts == ["amount", pointer_token(resource.name)]:
                return f"amount_{position}"
        name = {"where": "servers", "from": "start", "to": "end"}.get(parts[0]) if parts else None
        return name if name in self.fields else None
