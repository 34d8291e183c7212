"""Secrets of webhooks, and the signature of a request: Standard Webhooks (standardwebhooks.com).

A secret is HMAC-SHA256 of random bytes under a key of SECRET_KEY: neither the database nor a copy of
it holds a secret, and who changes SECRET_KEY has secrets to rotate.
"""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass

from allocator_service.webhooks.models import WebhookSecret

SECRET_PREFIX = "whsec_"  # noqa: S105 - the convention's name for what follows
_PURPOSE = b"webhook secret"


class SecretLost(Exception):
    """SECRET_KEY is another one than the secret was derived with."""


@dataclass(frozen=True)
class NewSecret:
    """What is stored of a new secret, and its text, which is shown once."""

    nonce: bytes
    digest: bytes
    text: str


def secret_new(*, secret_key: str) -> NewSecret:
    """A fresh secret of 256 bits."""
    nonce = secrets.token_bytes(32)
    key = _derived(nonce, secret_key)
    text = SECRET_PREFIX + base64.b64encode(key).decode()
    return NewSecret(nonce, hashlib.sha256(key).digest(), text)


def secret_of(secret: WebhookSecret, *, secret_key: str) -> bytes:
    """The key that a stored secret stands for. Raises `SecretLost`."""
    key = _derived(bytes(secret.nonce), secret_key)
    if not hmac.compare_digest(hashlib.sha256(key).digest(), bytes(secret.digest)):
        raise SecretLost
    return key


def signed_headers(
    *, message: str, timestamp: int, body: bytes, keys: list[bytes]
) -> dict[str, str]:
    """The headers that name and sign a message, once with each key."""
    content = f"{message}.{timestamp}.".encode() + body
    signatures = [
        "v1," + base64.b64encode(hmac.digest(key, content, "sha256")).decode() for key in keys
    ]
    return {
        "webhook-id": message,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }


def _derived(nonce: bytes, secret_key: str) -> bytes:
    root = hmac.digest(secret_key.encode(), _PURPOSE, "sha256")
    return hmac.digest(root, nonce, "sha256")
