"""Places of tenants in Slurm.

A place is the name of an account, or `account|user` for a user of it. Slurm prints "|" between the
columns of a row, so that no name which can be read has it.
"""

from __future__ import annotations

import re

from allocator_agent.configuration import OF_USER

# What Slurm takes for one name: it expands brackets, and splits at the others. In a list of a
# reservation, a sign before a name adds or excludes it.
WRITABLE = re.compile(r"(?![-+*])[^\s'\",:=\[\]]+")
Key = tuple[str, str, str]  # account, user, partition


def place_of(account: str, user: str) -> str:
    """Return the place of a user of an account."""
    return f"{account}{OF_USER}{user}"


def account_of(place: str) -> str:
    """Return the account of a place."""
    return place.partition(OF_USER)[0]


def key_of(place: str) -> Key:
    """Return the association of a place in all partitions."""
    account, _, user = place.partition(OF_USER)
    return account, user, ""


def is_writable(place: str) -> bool:
    """Return true if Slurm takes every name of a place for one name."""
    return all(WRITABLE.fullmatch(name) for name in place.split(OF_USER))
