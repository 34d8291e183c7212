"""Names of resources and tenants that options give."""

from __future__ import annotations

from policies.errors import PolicyOptionsError


def position_of(name: str, names: tuple[str, ...], pointer: str) -> int:
    """Return the index of a name that an option gives.

    Raises:
        PolicyOptionsError: there is no such name.
    """
    if name not in names:
        raise PolicyOptionsError(
            "policy.options",
            f"there is no {name!r}; there are {', '.join(names[:20])}",
            f"/policy/options/{pointer}",
        )
    return names.index(name)
