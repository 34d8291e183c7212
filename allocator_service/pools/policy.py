"""The policy and window of a pool, chosen and checked by an app that knows the policies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from allocator_service.core.durations import parse_duration
from allocator_service.core.errors import Refusals, Unacceptable
from allocator_service.pools.models import WindowKind

DEFAULT_HALF_LIFE = "P7D"
DEFAULT_ANCHOR = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday
# Far enough from the ends of the calendar for a step of the longest duration in any time zone.
EARLIEST_ANCHOR = datetime(1900, 1, 1, tzinfo=UTC)
LATEST_ANCHOR = datetime(2200, 1, 1, tzinfo=UTC)


def is_anchor(instant: datetime) -> bool:
    """Return whether windows and intervals may be counted from an instant."""
    return EARLIEST_ANCHOR <= instant < LATEST_ANCHOR


@dataclass(frozen=True)
class PolicyChoice:
    """A policy that exists, in a mode it has, with options it accepts.

    With `long_term`, it reads the past through the pool's window. With `places`, it decides on servers
    and so honours selectors.
    """

    name: str
    mode: str
    options: dict[str, Any]
    long_term: bool
    places: bool


@dataclass(frozen=True)
class Window:
    """The part of the past that counts. `length` and `half_life` are ISO 8601 durations."""

    kind: str
    anchor: datetime
    length: str = "P7D"
    half_life: str = ""

    def check(self, policy: PolicyChoice) -> "Window":
        """Reject a window that would switch the fairness of a long-term policy off unnoticed.

        Returns the window with the default half-life filled in. Raises `Unacceptable`.
        """
        refusals = Refusals()
        with refusals.collect():
            self._check_anchor()
        with refusals.collect():
            checked = self._check_length(policy)
        refusals.raise_any()
        return checked

    def _check_anchor(self) -> None:
        if not is_anchor(self.anchor):
            raise Unacceptable(
                f"An anchor lies between {EARLIEST_ANCHOR:%Y} and {LATEST_ANCHOR:%Y}: windows and"
                " intervals are counted from it.",
                code="window.anchor",
                pointer="/window/anchor",
            )

    def _check_length(self, policy: PolicyChoice) -> "Window":
        # Without a past there are no deficits to repay, and the policy decides as a short-term one.
        if self.kind == WindowKind.NONE and policy.long_term:
            raise Unacceptable(
                f"The policy {policy.name} keeps a history: choose tumbling, sliding, decay or"
                " unbounded.",
                code="window.none",
                pointer="/window/kind",
            )
        if self.kind in (WindowKind.TUMBLING, WindowKind.SLIDING):
            parse_duration(self.length, pointer="/window/length")
            return Window(self.kind, self.anchor, self.length)
        if self.kind == WindowKind.DECAY:
            half_life = self.half_life or DEFAULT_HALF_LIFE
            parse_duration(half_life, pointer="/window/half_life")
            return Window(self.kind, self.anchor, "", half_life)
        return Window(self.kind, self.anchor, "")


GroupRule = Callable[[str, Mapping[str, Any]], str]
_group_rules: list[GroupRule] = []


def register_group_rule(rule: GroupRule) -> None:
    """Register the function that states why a policy with its options takes no groups.

    It returns an empty text for a policy that does. This app does not know the policies.
    """
    _group_rules[:] = [rule]  # one rule, also where apps are set up again


def refuse_groups(policy_name: str, options: Mapping[str, Any], *, pointer: str) -> None:
    """Raise `Unacceptable` unless the policy decides by groups and tiers."""
    for rule in _group_rules:
        reason = rule(policy_name, options)
        if reason:
            raise Unacceptable(reason, code="policy.no_groups", pointer=pointer)
