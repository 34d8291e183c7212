"""Events as lines of mail.

A line is made from an event of the tenant alone, whose payload has nothing about other tenants.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from allocator_service.core.display import (
    counted,
    exact_text,
    instant_text,
    money_text,
    month_text,
    number_text,
)
from allocator_service.core.models import Event
from allocator_service.mail.models import MailKind
from allocator_service.pools.clusters import clusters_away
from allocator_service.workloads.models import Workload
from allocator_service.workloads.reason_texts import (
    TENANT,
    away_text,
    clusters_away_text,
    reason_text,
)

NAMED = 5
LONGEST = 500


@dataclass(frozen=True)
class Line:
    """News of a kind, as a sentence or a few."""

    kind: MailKind
    text: str


def line_of(event: Event) -> Line | None:
    """Return the line of an event, or None for an event that is no news."""
    found = _LINES.get(event.kind)
    if found is None or event.tenant is None:
        return None
    kind, text_of = found
    text = text_of(event)
    return Line(kind, _shortened(text)) if text else None


def _allocation(event: Event) -> str:
    fell = [each for each in event.payload["workloads"] if each["after"] < each["before"]]
    found = _workloads(each["workload"] for each in fell[:NAMED])
    parts = [
        f"{found[each['workload']].name} may run {_tasks(each['after'])} instead of"
        f" {number_text(Decimal(str(each['before'])))}"
        for each in fell[:NAMED]
    ]
    if len(fell) > NAMED:
        parts.append(f"{counted(len(fell) - NAMED, 'more workload')} may run fewer tasks")
    stopped = [found[each["workload"]] for each in fell[:NAMED] if not each["after"]]
    return f"{'; '.join(parts)}.{_of_clusters_away(stopped, event)}" if parts else ""


def _of_clusters_away(stopped: Sequence[Workload], event: Event) -> str:
    """Return sentences about the workloads whose clusters had left by an event."""
    # All are of the event's pool.
    away = clusters_away(stopped[0].pool, by=event.occurred_at) if stopped else {}
    parts = []
    for each in stopped:
        gone = clusters_away_text(each.server_selector, away, each.pool.timezone)
        if gone:
            parts.append(f" {each.name}: {gone[0].lower()}{gone[1:]}")
    return "".join(parts)


def _unsatisfiable(event: Event) -> str:
    id_, reason = event.payload["workload"], event.payload["reason"]
    workload = _workloads([id_])[id_]
    away = clusters_away(workload.pool, by=event.occurred_at)
    gone = away_text(reason, workload.server_selector, away, workload.pool.timezone)
    return f"{workload.name} cannot run. {gone or reason_text(reason, TENANT)}"


def _starved(event: Event) -> str:
    payload = event.payload
    hours = number_text(Decimal(str(payload["waiting_seconds"])) / 3600)
    return f"No task of yours has run for {hours} {'hour' if hours == '1' else 'hours'}."


def _blocked(event: Event) -> str:
    payload = event.payload
    # Without their number, which counts each piece of a task.
    reason = f" The scheduler's reason: {payload['reason']}." if payload["reason"] else ""
    return f"Jobs of yours wait in the scheduler although the decision lets them run.{reason}"


def _notice(event: Event) -> str:
    payload = event.payload
    jobs = payload["jobs"]
    first = min(datetime.fromisoformat(each["ends_at"]) for each in jobs)
    return (
        f"Above your part, to end from {instant_text(first, precision='minute')} on: {_jobs(payload)}."
        " What ends queues again."
    )


def _taken_back(event: Event) -> str:
    payload = event.payload
    return f"Ended, as above your part: {_jobs(payload)}. What ended queues again."


def _jobs(payload: Mapping[str, Any]) -> str:
    jobs: Sequence[Mapping[str, Any]] = payload["jobs"]
    named = ", ".join(each["name"] for each in jobs[:NAMED])
    more = f" and {payload['count'] - NAMED} more" if payload["count"] > NAMED else ""
    return f"job{'' if payload['count'] == 1 else 's'} {named}{more}"


def _budget(event: Event) -> str:
    payload = event.payload
    resource = payload["resource"]
    # Events of earlier versions have no currency.
    unit = f" hours of {resource}" if resource else f" {payload.get('currency') or ''}".rstrip()
    spent, amount = number_text(Decimal(payload["spent"])), exact_text(Decimal(payload["amount"]))
    period = month_text(payload["month"]) if payload["month"] else f"until {payload['to'][:10]}"
    return (
        f"Your budget of {amount}{unit} ({period}) reached {payload['threshold']} %:"
        f" {spent}{unit} are spent."
    )


def _units(event: Event) -> str:
    payload = event.payload
    effect = " Your workloads are served after all others." if payload["best_effort"] else ""
    return f"Your service units are used up.{effect}"


def _statement(event: Event) -> str:
    payload = event.payload
    billed = money_text(payload["billed"], payload["currency"])
    return f"Your statement of {month_text(payload['month'][:7])} is closed: {billed}."


def _credit_note(event: Event) -> str:
    payload = event.payload
    return (
        f"A credit note of {money_text(payload['amount'], payload.get('currency', ''))} was issued."
    )


def _workloads(ids: Iterable[str]) -> Mapping[str, Workload]:
    found = Workload.objects.filter(pk__in=list(ids)).select_related("pool")
    return {str(each.pk): each for each in found}


def _tasks(count: float) -> str:
    number = number_text(Decimal(str(count)))
    return f"{number} {'task' if number == '1' else 'tasks'}"


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


_LINES: Mapping[str, tuple[MailKind, Callable[[Event], str]]] = {
    "allocation.changed": (MailKind.ALLOCATION, _allocation),
    "workload.unsatisfiable": (MailKind.UNSATISFIABLE, _unsatisfiable),
    "tenant.starved": (MailKind.UNSATISFIABLE, _starved),
    "enforcement.blocked": (MailKind.BLOCKED, _blocked),
    "enforcement.notice": (MailKind.TAKEN_BACK, _notice),
    "enforcement.taken_back": (MailKind.TAKEN_BACK, _taken_back),
    "budget.reached": (MailKind.BUDGET, _budget),
    "service_units.exhausted": (MailKind.BUDGET, _units),
    "statement.closed": (MailKind.STATEMENT, _statement),
    "credit_note.created": (MailKind.STATEMENT, _credit_note),
}
KINDS_OF_EVENTS = tuple(_LINES)
