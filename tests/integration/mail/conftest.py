"""A real mail server on this machine, which keeps what it takes."""

import dataclasses
import socket
from email import message_from_bytes, policy

import pytest
from aiosmtpd.controller import Controller

from allocator_service.settings.environment import MailServer

SENDER, PUBLIC_URL = "allocation@example.org", "https://allocation.example.org"


class Inbox:
    """Mails that the server took. `refuse` are its answers by recipient."""

    def __init__(self):
        self.mails = []
        self.refuse = {}

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address in self.refuse:
            return self.refuse[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        mail = message_from_bytes(envelope.content, policy=policy.default)
        self.mails.append(mail)
        return "250 OK"

    def texts(self, address):
        return [each.get_content() for each in self.mails if each["To"] == address]


@pytest.fixture
def inbox(settings):
    inbox = Inbox()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    controller = Controller(inbox, hostname="127.0.0.1", port=port)
    controller.start()
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST = "127.0.0.1"
    settings.EMAIL_PORT = port
    settings.ENVIRONMENT = dataclasses.replace(
        settings.ENVIRONMENT, mail=MailServer({}, SENDER, PUBLIC_URL)
    )
    yield inbox
    controller.stop()
