"""Life cycle of subscriptions."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from django.conf import settings
from django.core import signing
from django.db import transaction
from django.db.models import Q, QuerySet

from allocator_service.core.errors import Conflict, Missing
from allocator_service.core.locks import Lock, lock_in_transaction
from allocator_service.mail.models import MailKind, Subscription
from allocator_service.tenants.models import Person, Scope, Tenant
from allocator_service.tenants.people import tenants_of_groups

# Anybody with a key can have a mail sent to an address of their choice: one, to confirm it.
MOST_ADDRESSES, MOST_UNCONFIRMED = 20, 5
CONFIRMED_WITHIN = timedelta(days=7)
# A person who does not sign in for so long may have left.
SEEN_WITHIN = timedelta(days=90)
Purpose = Literal["confirm", "end"]
MONDAY, HOUR = 0, 7
# News are collected for a while, so that one cause gives one mail.
COLLECTED, BETWEEN_MAILS = timedelta(seconds=30), timedelta(minutes=15)


def subscriptions_of(*, tenant: Tenant, holder: UUID) -> QuerySet[Subscription]:
    """Return the addresses that the holder of a key, or a person, has chosen for a tenant."""
    return Subscription.objects.filter(Q(key=holder) | Q(person=holder), tenant=tenant)


@transaction.atomic
def subscription_put(
    *, tenant: Tenant, holder: UUID, address: str, kinds: Sequence[str], now: datetime
) -> Subscription:
    """Set the kinds of news that an address gets about a tenant.

    A new address first gets a mail in which its owner confirms it.
    """
    if settings.ENVIRONMENT.mail is None:
        raise Conflict("This installation sends no mail.", code="mail.not_configured")
    lock_in_transaction(Lock.MAIL, str(tenant.pk))
    # A process that sends writes rows of subscriptions, too.
    present = Subscription.objects.select_for_update(no_key=True).filter(tenant=tenant)
    found = present.filter(address__iexact=address).first()
    if found is None:
        _check_number(tenant)
        found = Subscription(tenant=tenant, address=address, created_at=now, due_at=now)
    elif holder not in (found.key_id, found.person_id):
        raise Conflict(
            "This address gets mail about the tenant already, chosen with another key or by another"
            " person.",
            code="mail.address_taken",
        )
    person = Person.objects.filter(pk=holder).first()
    found.person, found.key_id = person, None if person else holder
    found.kinds = [kind for kind in MailKind.values if kind in kinds]
    if MailKind.WEEKLY not in kinds:
        found.weekly_at = None
    elif found.weekly_at is None:
        found.weekly_at = next_monday(now)
    if found.confirmed_at is not None:
        found.news.exclude(kind__in=found.kinds).delete()
        subscription_schedule(found, now=now)
    found.save()
    return found


@transaction.atomic
def subscription_confirm(*, token: str, now: datetime) -> Subscription:
    """Begin to send news to an address, whose owner has the token.

    Raises `Missing` if the subscription has ended or the token is not genuine or too old.
    """
    found = subscription_of_token(token=token, purpose="confirm", locked=True)
    if found.confirmed_at is None:
        # The request to confirm the address delays no news.
        found.confirmed_at, found.sent_at = now, None
        subscription_schedule(found, now=now)
        found.save()
    return found


def subscription_end(*, token: str) -> None:
    """End the subscription of a token, if it has not ended yet."""
    try:
        subscription_of_token(token=token, purpose="end").delete()
    except Missing as error:
        if error.code != "mail.ended":
            raise


def subscription_remove(*, tenant: Tenant, holder: UUID, subscription: UUID) -> None:
    """End one of the holder's subscriptions about a tenant. Idempotent."""
    subscriptions_of(tenant=tenant, holder=holder).filter(pk=subscription).delete()


def subscription_schedule(subscription: Subscription, *, now: datetime) -> None:
    """Set when the next mail is due. Without news that is the next summary."""
    due = [] if subscription.weekly_at is None else [subscription.weekly_at]
    if subscription.news.exists():
        earliest = now + COLLECTED
        if subscription.sent_at is not None:
            earliest = max(earliest, subscription.sent_at + BETWEEN_MAILS)
        due.append(earliest)
    subscription.due_at = min(due, default=None)


def is_entitled(subscription: Subscription, *, now: datetime) -> bool:
    """Return true if the key or person of a subscription may still see the tenant."""
    key, person = subscription.key, subscription.person
    if subscription.tenant.retired_at is not None:
        return False
    if key is not None:
        alive = key.revoked_at is None and key.expires_at > now
        return alive and key.scope == Scope.TENANT and key.tenant_id == subscription.tenant_id
    provider = settings.ENVIRONMENT.oidc
    if person is None or not person.user.is_active or provider is None:
        return False
    # The groups of a person are those of the last sign-in.
    is_known = provider.issuer == person.issuer and now - person.last_signed_in_at < SEEN_WITHIN
    return is_known and tenants_of_groups(person.groups).filter(pk=subscription.tenant_id).exists()


def token_of(subscription: Subscription, purpose: Purpose) -> str:
    """Return a token with which the owner of the address confirms or ends a subscription."""
    return _signer(purpose).sign(str(subscription.pk))


def subscription_of_token(*, token: str, purpose: Purpose, locked: bool = False) -> Subscription:
    """Return the subscription of a token, locked or not.

    Raises `Missing` if it has ended, or the token is not genuine or, to confirm an address, too old.
    """
    max_age = CONFIRMED_WITHIN if purpose == "confirm" else None
    try:
        key = _signer(purpose).unsign(token, max_age=max_age)
    except signing.SignatureExpired as error:
        raise Missing("This link is too old.", code="mail.too_old") from error
    except signing.BadSignature as error:
        raise Missing("This link is not complete.", code="mail.not_genuine") from error
    rows = Subscription.objects.select_related("tenant").filter(pk=UUID(key))
    found = rows.select_for_update(of=["self"], no_key=True).first() if locked else rows.first()
    if found is None:
        raise Missing("The address gets no more mail about this tenant.", code="mail.ended")
    return found


def next_monday(now: datetime) -> datetime:
    """Return the next Monday, 07:00 UTC, later than an instant."""
    day = now.replace(hour=HOUR, minute=0, second=0, microsecond=0)
    day += timedelta(days=(MONDAY - day.weekday()) % 7)
    return day if day > now else day + timedelta(days=7)


def _signer(purpose: Purpose) -> signing.TimestampSigner:
    return signing.TimestampSigner(salt=f"mail.{purpose}")


def _check_number(tenant: Tenant) -> None:
    present = Subscription.objects.filter(tenant=tenant)
    if present.count() >= MOST_ADDRESSES:
        raise Conflict(
            f"At most {MOST_ADDRESSES} addresses get mail about a tenant.", code="mail.too_many"
        )
    if present.filter(confirmed_at=None).count() >= MOST_UNCONFIRMED:
        raise Conflict(
            f"{MOST_UNCONFIRMED} addresses of the tenant wait to be confirmed. Confirm or remove one.",
            code="mail.unconfirmed",
        )
