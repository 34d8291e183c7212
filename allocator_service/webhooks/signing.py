"""Secrets of webhooks and signatures of requests, after Standard Webhooks (standardwebhooks.com).

A secret is HMAC-SHA256 of a stored nonce under a key derived from SECRET_KEY. The database and its
backups therefore hold no secret. After a change of SECRET_KEY every webhook's secret must be
rotated.
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
    """SECRET_KEY has changed since the secret was derived."""


@dataclass(frozen=True)
class NewSecret:
    """The stored parts of a new secret, and its text, which is shown once."""

    nonce: bytes
    digest: bytes
    text: str


def secret_generate(*, secret_key: str) -> NewSecret:
    """Generate a secret of 256 bits."""
    nonce = secrets.token_bytes(32)
    key = _derive(nonce, secret_key)
    text = SECRET_PREFIX + base64.b64encode(key).decode()
    return NewSecret(nonce, hashlib.sha256(key).digest(), text)


def signing_key(secret: WebhookSecret, *, secret_key: str) -> bytes:
    """Return the key of a stored secret. Raises `SecretLost`."""
    key = _derive(bytes(secret.nonce), secret_key)
    if not hmac.compare_digest(hashlib.sha256(key).digest(), bytes(secret.digest)):
        raise SecretLost
    return key


def signed_headers(
    *, message: str, timestamp: int, body: bytes, keys: list[bytes]
) -> dict[str, str]:
    """Return the headers that identify a message and sign it once with each key."""
    content = f"{message}.{timestamp}.".encode() + body
    signatures = [
        "v1," + base64.b64encode(hmac.digest(key, content, "sha256")).decode() for key in keys
    ]
    return {
        "webhook-id": message,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }


def _derive(nonce: bytes, secret_key: str) -> bytes:
    root = hmac.digest(secret_key.encode(), _PURPOSE, "sha256")
    return hmac.digest(root, nonce, "sha256")
