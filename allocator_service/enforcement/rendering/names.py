"""Names that schedulers accept for tenants, groups and classes.

A name is changed if the scheduler does not accept it or reserves it for itself. It then gets the first
letters of its digest, so that two never become one.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Sequence

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
    """Return the Slurm account of a tenant, which is its slug except for `root`.

    The limits of `root` are the whole cluster's.
    """
    return _changed("tenant", slug) if slug == "root" else slug


def group_accounts(slugs: Sequence[str], taken: Collection[str]) -> dict[str, str]:
    """Return the Slurm account of each group.

    It is the slug, except for `root` and tenants' accounts.
    """
    return _group_names(slugs, taken, lambda slug: slug == "root")


def group_objects(slugs: Sequence[str], taken: Collection[str]) -> dict[str, str]:
    """Return the queue or cohort of each group.

    It is the slug, except for names that schedulers reserve and those `taken`.
    """
    return _group_names(slugs, taken, _is_kept)


def object_name(slug: str) -> str:
    """Return the namespace or queue of a tenant, which is its slug unless a scheduler reserves it.

    Kubernetes reserves `default` and `kube-...`, Volcano `default` and `root`.
    """
    return _changed("tenant", slug) if _is_kept(slug) else slug


def parent_name(pool: str, taken: Collection[str]) -> str:
    """Return the queue above those of a pool's tenants, whose names are taken."""
    return _free(f"pool-{pool}", taken)


def any_class_name(taken: Collection[str]) -> str:
    """Return the name for servers without the label, or for all servers."""
    return _free("any", taken)


def class_name(value: str) -> str:
    """Return the name of a class of servers as an object of Kubernetes (RFC 1123)."""
    return value if _LABEL.fullmatch(value) else _changed("class", value)


def is_node_label(key: str, value: str) -> bool:
    """Return whether a node of Kubernetes can have this label."""
    return _KEY.fullmatch(key) is not None and _VALUE.fullmatch(value) is not None


def _is_kept(slug: str) -> bool:
    return slug in ("default", "root") or slug.startswith("kube-")


def _group_names(
    slugs: Sequence[str], taken: Collection[str], is_kept: Callable[[str], bool]
) -> dict[str, str]:
    names = {slug: slug for slug in slugs if not is_kept(slug) and slug not in taken}
    used = {*taken, *names}
    for slug in slugs:
        if slug not in names:
            name = _changed("group", slug)
            while name in used:
                name = _changed("group", name)
            used.add(name)
            names[slug] = name
    return names


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken or len(name) > _LABEL_LENGTH:
        name = _changed("allocator", name)
    return name


def _changed(kind: str, text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LETTERS]
    room = _LABEL_LENGTH - len(kind) - _DIGEST_LETTERS - 2
    readable = _OTHERS.sub("-", text.lower()).strip("-")[:room].strip("-")
    return "-".join(part for part in (kind, readable, digest) if part)
