"""Names that a scheduler accepts, for tenants and classes whose own it does not, or knows as its own.

A name that has to change gets the first letters of its digest, so that two never become one.
"""

import hashlib
import re

# RFC 1123, section 2.1, as Kubernetes has it for labels: at most 63 characters.
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_OTHERS = re.compile(r"[^a-z0-9]+", re.ASCII)
_DIGEST_LETTERS = 8
_LABEL_LENGTH = 63
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_KEY = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?",
    re.ASCII,
)


def account_name(slug: str) -> str:
    """The Slurm account of a tenant: its slug, save for `root`, whose limits are the whole cluster's."""
    return _changed("tenant", slug) if slug == "root" else slug


def object_name(slug: str) -> str:
    """The namespace or queue of a tenant: its slug, save for those that Kubernetes keeps for itself."""
    return _changed("tenant", slug) if slug == "default" or slug.startswith("kube-") else slug


def class_name(value: str) -> str:
    """The name of a class of servers as an object of Kubernetes (RFC 1123)."""
    return value if _LABEL.fullmatch(value) else _changed("class", value)


def is_node_label(key: str, value: str) -> bool:
    """Whether a node of Kubernetes can have this label."""
    return _KEY.fullmatch(key) is not None and _VALUE.fullmatch(value) is not None


def _changed(kind: str, text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LETTERS]
    room = _LABEL_LENGTH - len(kind) - _DIGEST_LETTERS - 2
    readable = _OTHERS.sub("-", text.lower()).strip("-")[:room].strip("-")
    return "-".join(part for part in (kind, readable, digest) if part)
