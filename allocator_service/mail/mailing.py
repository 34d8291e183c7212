"""From events to sent mail.

Each event becomes a line for each subscription that chose its kind, exactly once. Lines and position in
the events are written in one transaction. One process at a time sends, under a lease. If it dies after
the mail server took a mail and before that is recorded, the mail is sent again with the same
`Message-ID`, by which mail programs drop the second one.
"""

import smtplib
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import structlog
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db import transaction
from django.db.models import Max, Q

from allocator_service.core.models import Event, EventSeal
from allocator_service.mail.composing import composed
from allocator_service.mail.lines import KINDS_OF_EVENTS, line_of
from allocator_service.mail.models import MailState, News, Subscription
from allocator_service.mail.subscriptions import (
    CONFIRMED_WITHIN,
    is_entitled,
    next_monday,
    subscription_schedule,
)
from allocator_service.settings.environment import MailServer

EVENTS_PER_BATCH = 1000
# Newer lines replace the oldest of a subscription that has more.
MOST_NEWS = 200
# A worker that sends decides nothing meanwhile.
LEASE, RUN_SECONDS = timedelta(minutes=2), 10.0
SHORTEST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(minutes=15)
SHORTEST_RETRY, LONGEST_RETRY = timedelta(minutes=5), timedelta(hours=6)
MOST_FAILURES = 12
# The mail server's word that there is no such address.
_PERMANENT = range(500, 600)

log = structlog.get_logger(__name__)


@transaction.atomic
def news_collect(*, now: datetime) -> bool:
    """Write the lines of the next events for the subscriptions that chose them.

    Return True if more events remain.
    """
    last = EventSeal.objects.aggregate(last=Max("sequence"))["last"] or 0
    # News begin with the first start of the service that can send mail.
    MailState.objects.get_or_create(pk=1, defaults={"sequence": last})
    state = MailState.objects.select_for_update(skip_locked=True).filter(pk=1).first()
    if state is None or state.sequence >= last:  # another process collects, or there is nothing
        return False
    through = min(last, state.sequence + EVENTS_PER_BATCH)
    events = Event.objects.filter(
        seal__sequence__gt=state.sequence,
        seal__sequence__lte=through,
        kind__in=KINDS_OF_EVENTS,
        tenant__isnull=False,
    ).order_by("seal__sequence")
    _write_lines(list(events), now)
    state.sequence = through
    state.save(update_fields=["sequence"])
    return bool(through < last)


def _write_lines(events: list[Event], now: datetime) -> None:
    subscriptions: dict[str, list[Subscription]] = {}
    confirmed = Subscription.objects.filter(
        tenant__slug__in={event.tenant for event in events}, confirmed_at__isnull=False
    )
    for each in confirmed.select_related("tenant").select_for_update(of=["self"], no_key=True):
        subscriptions.setdefault(each.tenant.slug, []).append(each)
    written: set[UUID] = set()
    news = []
    for event in events:
        mine = subscriptions.get(str(event.tenant), [])
        line = line_of(event) if mine else None
        for each in mine:
            if line is None or line.kind not in each.kinds:
                continue
            written.add(each.pk)
            news.append(
                News(
                    subscription=each,
                    kind=line.kind,
                    pool=event.pool or "",
                    text=line.text,
                    at=event.occurred_at,
                )
            )
    News.objects.bulk_create(news)
    for mine in subscriptions.values():
        for each in mine:
            if each.pk in written and (each.due_at is None or each.due_at == each.weekly_at):
                subscription_schedule(each, now=now)
                each.save(update_fields=["due_at"])
    for subscription in written:
        waiting = News.objects.filter(subscription=subscription).order_by("-id")
        oldest = waiting.values_list("pk", flat=True)[MOST_NEWS:].first()
        if oldest is not None:
            waiting.filter(pk__lte=oldest).delete()


def mail_send(*, server: MailServer, clock: Callable[[], datetime]) -> int:
    """Send the mail that is due, and return how many were sent.

    If the mail server cannot be reached, all mail pauses, so that a frozen server costs little.
    """
    _delete_unconfirmed(clock())
    token = _lease(clock()) if _next_due(clock()) is not None else None
    if token is None:
        return 0
    sent, end, reached = 0, time.monotonic() + RUN_SECONDS, True
    try:
        with get_connection() as connection:
            while time.monotonic() < end and (each := _next_due(clock())) is not None:
                sent += _attempt(each, server, connection, token, clock())
    except (OSError, smtplib.SMTPException) as error:
        reached = False
        log.warning("mail_server_not_reached", error=str(error)[:200])
    finally:
        _release(token, clock(), reached=reached)
    return sent


def _next_due(now: datetime) -> Subscription | None:
    due = Subscription.objects.filter(due_at__lte=now).order_by("due_at")
    return due.select_related("tenant", "key", "person__user").first()


def _attempt(
    subscription: Subscription,
    server: MailServer,
    connection: BaseEmailBackend,
    token: UUID,
    now: datetime,
) -> bool:
    """Send the next mail of a subscription. Errors of the connection are raised."""
    if not is_entitled(subscription, now=now):
        log.info("mail_subscription_ended", subscription=str(subscription.pk), because="access")
        subscription.delete()
        return False
    try:
        mail = composed(subscription, server=server, now=now)
    except Exception as error:
        # Mail that cannot be composed must not stop the mail of others.
        log.exception("mail_not_composed", subscription=str(subscription.pk))
        _record_refusal(subscription, 0, type(error).__name__, now)
        return False
    if mail is None:
        _record(subscription, [], token, now)
        return False
    message = EmailMessage(
        subject=mail.subject,
        body=mail.text,
        from_email=server.sender,
        to=[subscription.address],
        headers=mail.headers,
        connection=connection,
    )
    try:
        message.send()
    except smtplib.SMTPRecipientsRefused as refused:
        code, reason = next(iter(refused.recipients.values()), (0, b""))
        _record_refusal(subscription, code, reason.decode("utf-8", "replace"), now)
        return False
    except (smtplib.SMTPSenderRefused, smtplib.SMTPDataError) as refused:
        # The server answers, but not for this mail: the others go on.
        _record_refusal(subscription, 0, str(refused), now)
        return False
    _record(subscription, mail.news, token, now)
    return True


@transaction.atomic
def _record(subscription: Subscription, news: list[int], token: UUID, now: datetime) -> None:
    """Record that a mail was sent with these lines."""
    if not MailState.objects.filter(token=token).exists():
        return  # the lease has ended, and another process sends
    found = Subscription.objects.select_for_update(no_key=True).filter(pk=subscription.pk).first()
    if found is None:  # ended meanwhile
        return
    News.objects.filter(pk__in=news).delete()
    found.sent_at, found.failures, found.error = now, 0, ""
    if found.weekly_at is not None and found.weekly_at <= now:
        found.weekly_at = next_monday(now)
    if found.confirmed_at is None:
        found.due_at = None
    else:
        subscription_schedule(found, now=now)
    found.save()


@transaction.atomic
def _record_refusal(subscription: Subscription, code: int, reason: str, now: datetime) -> None:
    """Postpone the mail of an address that the server refuses, or end a subscription that stays so."""
    found = Subscription.objects.select_for_update(no_key=True).filter(pk=subscription.pk).first()
    if found is None:
        return
    found.failures += 1
    if (code in _PERMANENT and found.confirmed_at is None) or found.failures >= MOST_FAILURES:
        log.info("mail_subscription_ended", subscription=str(found.pk), because="refused")
        found.delete()
        return
    found.error = reason[:200]
    found.due_at = now + min(SHORTEST_RETRY * 2 ** (found.failures - 1), LONGEST_RETRY)
    found.save()


@transaction.atomic
def _lease(now: datetime) -> UUID | None:
    """Take the lease of the process that sends. Return its token, or None if another one has it."""
    # A pause that lies further ahead was set before the clock was put back.
    free = Q(busy_until=None) | Q(busy_until__lte=now) | Q(busy_until__gt=now + LONGEST_PAUSE)
    state = MailState.objects.select_for_update(skip_locked=True).filter(free, pk=1).first()
    if state is None:
        return None
    state.busy_until, state.token = now + LEASE, uuid4()
    state.save(update_fields=["busy_until", "token"])
    return state.token


@transaction.atomic
def _release(token: UUID, now: datetime, *, reached: bool) -> None:
    state = MailState.objects.select_for_update().filter(token=token).first()
    if state is None:
        return
    state.failures = 0 if reached else state.failures + 1
    pause = SHORTEST_PAUSE * 2 ** min(state.failures - 1, 10) if state.failures else timedelta(0)
    state.busy_until, state.token = now + min(pause, LONGEST_PAUSE), None
    state.save()


def _delete_unconfirmed(now: datetime) -> None:
    Subscription.objects.filter(confirmed_at=None, created_at__lt=now - CONFIRMED_WITHIN).delete()
