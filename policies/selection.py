"""Selection of a policy by name, with its mode and options checked.

Nothing is solved here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policies import catalogue
from policies.errors import PolicyModeError, PolicyOptionsError, PolicyUnknownError
from policies.model.options import check_schema, mismatch
from policies.model.policy import Choice, Policy

_KNOWN: dict[str, Policy] = {
    policy.name: policy for policy in vars(catalogue).values() if isinstance(policy, Policy)
}


def make_known(policy: Policy) -> None:
    """Let a policy be chosen by its name.

    Raises:
        ValueError: another policy has the name, or a schema has an unsupported keyword.
    """
    check_schema(policy.options_schema)
    if _KNOWN.setdefault(policy.name, policy) is not policy:
        raise ValueError(f"a policy {policy.name!r} is already registered")


def policies_available() -> tuple[Policy, ...]:
    """List every policy, in the order of their names.

    Returns
    -------
    tuple of Policy
        All policies that are known.

    Examples
    --------
    >>> from policies import policies_available
    >>> [policy.name for policy in policies_available()][:3]
    ['asset', 'ceei', 'drf']
    """
    return tuple(_KNOWN[name] for name in sorted(_KNOWN))


def policy_named(name: str) -> Policy:
    """Look a policy up by its name.

    Parameters
    ----------
    name : str
        A name from :func:`policies_available`.

    Returns
    -------
    Policy
        The policy of that name.

    Raises
    ------
    PolicyUnknownError
        There is none.

    Examples
    --------
    >>> from policies import policy_named
    >>> policy_named("tda").time_sharing
    True
    """
    if name not in _KNOWN:
        raise PolicyUnknownError(
            "policy.unknown",
            f"there is no policy {name!r}; there are {', '.join(sorted(_KNOWN))}",
            "/policy/name",
        )
    return _KNOWN[name]


def choose(name: str, mode: str | None = None, options: Mapping[str, Any] | None = None) -> Choice:
    """Look a policy up, with the mode that applies, and check the options.

    Parameters
    ----------
    name : str
        A name from :func:`policies_available`.
    mode : str, optional
        One of its modes; the first by default.
    options : mapping, optional
        Options that fit the policy's schema.

    Returns
    -------
    Choice
        The policy with its mode and options.

    Raises
    ------
    PolicyUnknownError, PolicyModeError, PolicyOptionsError
        The name, the mode or the options do not fit.

    Examples
    --------
    >>> from policies import choose
    >>> choose("drf").mode
    'divisible'
    """
    return Choice(policy_named(name), _mode_of(name, mode), _options_of(name, options))


def _mode_of(name: str, mode: str | None) -> str:
    """Return the given mode, or the policy's default for None.

    Raises:
        PolicyUnknownError, PolicyModeError: no such policy, or it lacks the mode.
    """
    modes = policy_named(name).modes
    if mode is None:
        return modes[0]
    if mode not in modes:
        raise PolicyModeError(
            "policy.mode",
            f"policy {name!r} has no mode {mode!r}; it has {', '.join(modes)}",
            "/policy/mode",
        )
    return mode


def _options_of(name: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options, checked against the policy's schema.

    An option that is omitted has its default there.

    Raises:
        PolicyUnknownError, PolicyOptionsError: no such policy, or options that do not fit.
    """
    given = dict(options or {})
    wrong = mismatch(policy_named(name).options_schema, given)
    if wrong is not None:
        pointer, sentence = wrong
        raise PolicyOptionsError(
            "policy.options", f"options of policy {name!r}: {sentence}", f"/policy/options{pointer}"
        )
    return given
