"""Texts of mails."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from uuid import uuid5

from django.urls import reverse

from allocator_service.core.display import counted, instant_text
from allocator_service.mail.models import MailKind, News, Subscription
from allocator_service.mail.subscriptions import token_of
from allocator_service.mail.weekly import summary_lines
from allocator_service.pools.models import Pool
from allocator_service.settings.environment import MailServer

LINES = 50


@dataclass(frozen=True)
class MailText:
    """A mail to a subscription's address.

    Attributes:
        news: the lines that it contains or counts.
    """

    subject: str
    text: str
    headers: dict[str, str]
    news: list[int]


def composed(subscription: Subscription, *, server: MailServer, now: datetime) -> MailText | None:
    """Return the next mail of a subscription, or None if it has no news."""
    if subscription.confirmed_at is None:
        return _request(subscription, server)
    news = list(subscription.news.order_by("pool", "id"))
    weekly = subscription.weekly_at is not None and subscription.weekly_at <= now
    if not news and not weekly:
        return None
    tenant = _one_line(subscription.tenant.name)
    parts = [tenant, *_by_pool(news, server)]
    if weekly:
        parts += summary_lines(subscription.tenant, now=now)
    subject = _subject(news, tenant) if news else f"Your week in the pools: {tenant}"
    end = _address(server, "mail-end", token_of(subscription, "end"))
    parts.append(
        f"Choose what you get: {_address(server, 'my-mail')}\nEnd this mail without signing in: {end}"
    )
    # The same lines give the same id, also if they are sent again.
    latest = max((each.pk for each in news), default=0)
    identity = uuid5(subscription.pk, f"{latest} {subscription.weekly_at if weekly else ''}")
    headers = {
        "Message-ID": f"<{identity}@{_domain(server)}>",
        "List-Unsubscribe": f"<{end}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        "Auto-Submitted": "auto-generated",
    }
    return MailText(subject, "\n\n".join(parts) + "\n", headers, [each.pk for each in news])


def _request(subscription: Subscription, server: MailServer) -> MailText:
    tenant = _one_line(subscription.tenant.name)
    confirm = _address(server, "mail-confirm", token_of(subscription, "confirm"))
    chosen = "\n".join(f"  {MailKind(kind).label}" for kind in subscription.kinds)
    text = (
        f"A person with access to {tenant} chose this address for mail of the allocation service:\n\n"
        f"{chosen}\n\nTo get it, confirm the address within 7 days:\n{confirm}\n\n"
        "If that was not you, ignore this mail. Nothing more is sent to you.\n"
    )
    identity = uuid5(subscription.pk, "confirm")
    headers = {
        "Message-ID": f"<{identity}@{_domain(server)}>",
        "Auto-Submitted": "auto-generated",
    }
    return MailText(f"Confirm your address for {tenant}", text, headers, [])


def _by_pool(news: list[News], server: MailServer) -> Iterator[str]:
    """Yield the latest lines of each pool with their instants in the pool's time zone."""
    pools = {pool.slug: pool for pool in Pool.objects.filter(slug__in={each.pool for each in news})}
    for slug, lines in groupby(news, key=lambda each: each.pool):
        mine = list(lines)
        pool = pools.get(slug)
        zone = "UTC" if pool is None else pool.timezone
        name = slug if pool is None else _one_line(pool.name)
        rows = [f"{instant_text(each.at, zone)}: {_one_line(each.text)}" for each in mine[-LINES:]]
        if len(mine) > LINES:
            rows.insert(0, f"{counted(len(mine) - LINES, 'earlier line')} left out")
        link = [] if pool is None else [_address(server, "my-pool", slug)]
        yield "\n".join([f"{name}:", *rows, *link])


def _subject(news: list[News], tenant: str) -> str:
    latest = max(news, key=lambda each: each.pk)
    if len(news) > 1:
        return f"{len(news)} news for {tenant}"
    return f"{MailKind(latest.kind).label}: {tenant}"


def _address(server: MailServer, name: str, *args: str) -> str:
    return f"{server.public_url}{reverse(name, args=args)}"


def _domain(server: MailServer) -> str:
    return server.sender.rpartition("@")[2].rstrip(">")


def _one_line(text: str) -> str:
    return " ".join(text.split())
