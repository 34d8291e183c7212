"""Celery task of the app."""

from celery import shared_task
from django.conf import settings

from allocator_service.core.clock import utc_now
from allocator_service.mail.mailing import mail_send, news_collect

# Redis keeps one list per priority; workers empty the list of decisions (0) first.
AFTER_DECISIONS = 9


@shared_task(name="mail.send", priority=AFTER_DECISIONS)
def send() -> None:
    """Collect news for the addresses that chose them, and send what is due."""
    server = settings.ENVIRONMENT.mail
    if server is None:
        return
    while news_collect(now=utc_now()):
        pass
    mail_send(server=server, clock=utc_now)
