"""Changes of the limits of Slurm's associations, as plans have and show them."""

from __future__ import annotations

from dataclasses import dataclass

from allocator_agent.changes import ADD, CHANGE, ObjectChange, Value
from allocator_agent.slurm.people import Key, key_of

Limits = dict[str, int]


@dataclass(frozen=True)
class LimitChange:
    """An association whose limits or fair share differ from the decision.

    None is unlimited.
    """

    key: Key
    before: dict[str, int | None]
    after: Limits
    fairshare: tuple[str, str]  # before and after
    new: bool = False

    @property
    def lowered(self) -> Limits:
        """The intermediate limits, at most the present and at most the new ones."""
        return {name: _least(self.before[name], most) for name, most in self.after.items()}

    @property
    def lowers(self) -> bool:
        return any(self.before[name] != most for name, most in self.lowered.items())

    @property
    def raises(self) -> bool:
        """True if anything is left to write after the limits that fall."""
        return self.lowered != self.after or (self.shares and not self.lowers)

    @property
    def shares(self) -> bool:
        """True if the fair share changes. It is not a limit, so the first command includes it."""
        return self.fairshare[0] != self.fairshare[1]

    def shown(self) -> ObjectChange:
        """Return the change as a plan shows it."""
        values = [
            Value(name, _shown(self.before[name]), _shown(most))
            for name, most in self.after.items()
            if self.before[name] != most
        ]
        if self.shares:
            values.append(Value("fairshare", *self.fairshare))
        return ObjectChange(ADD if self.new else CHANGE, name_of(self.key), tuple(values))


@dataclass(frozen=True)
class LimitRemoval:
    """Limits of an association that the agent no longer manages, and the reason."""

    key: Key
    before: Limits
    reason: str

    def shown(self) -> ObjectChange:
        """Return the removal as a plan shows it."""
        values = [Value(name, str(most), _shown(None)) for name, most in self.before.items()]
        return ObjectChange(CHANGE, name_of(self.key), tuple(values), (self.reason,))


@dataclass(frozen=True)
class MinutesChange:
    """GrpTRESMins of an account or user that differ from the budgets of its node.

    -1 is unlimited.
    """

    place: str
    before: dict[str, int]
    after: dict[str, int]

    def shown(self) -> ObjectChange:
        """Return the change as a plan shows it."""
        values = [
            Value(f"{name} minutes", _minutes_text(self.before[name]), _minutes_text(most))
            for name, most in self.after.items()
            if self.before[name] != most
        ]
        return ObjectChange(CHANGE, name_of(key_of(self.place)), tuple(values))


def name_of(key: Key) -> str:
    """Return an association as plans name it."""
    account, user, partition = key
    in_partition = f" in partition {partition}" if partition else ""
    return f"user {user} of account {account}{in_partition}" if user else f"account {account}"


def _least(before: int | None, after: int) -> int:
    return after if before is None else min(before, after)


def _minutes_text(value: int) -> str:
    return "unlimited" if value < 0 else str(value)


def _shown(value: int | None) -> str:
    return "unlimited" if value is None else str(value)
