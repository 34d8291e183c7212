"""Rows of files, and reports of imports."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Generic, TypeVar

from allocator_service.core.errors import FieldError
from allocator_service.pools.limits import Limit
from allocator_service.workloads.gangs import Gang

Selector = dict[str, str | list[str]]


class Outcome(StrEnum):
    """The outcome of a row. A skipped row changes nothing, such as a pod that has finished."""

    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Place:
    """The position of a row, as a line of a CSV from 1 or an item of a JSON list from 0."""

    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


@dataclass(frozen=True)
class NodeRow:
    """A server, or `count` identical ones. `draining` is None if the format has no such state."""

    place: Place
    name: str
    owner: str | None
    capacity: Sequence[Decimal]
    labels: dict[str, str]
    count: int = 1
    draining: bool | None = None


@dataclass(frozen=True)
class WorkloadRow:
    """A workload. `demand` is that of one task, and `tasks` is None without a limit.

    `gang` is None if the row states no pieces, and `minimum_run` empty if it states no time. Those of
    the workload stay. `group` is that of a tenant that becomes a member, empty for the pool itself.
    """

    place: Place
    name: str
    owner: str
    demand: Sequence[Decimal]
    tasks: int | None
    priority: int = 0
    selector: Selector = field(default_factory=dict)
    gang: Gang | None = None
    minimum_run: str = ""
    group: str = ""


@dataclass(frozen=True)
class UsageRow:
    """Usage over `[start, end)`. `name` is its permanent id at `source`."""

    place: Place
    name: str
    owner: str
    source: str
    amounts: Sequence[Decimal]
    start: datetime
    end: datetime


@dataclass(frozen=True)
class TenantRow:
    """A tenant. `name` is its slug and `title` its name. It has no owner."""

    place: Place
    name: str
    title: str
    owner: None = None


@dataclass(frozen=True)
class TreeRow:
    """A group, or a member with its place in the tree.

    `name` is the slug, and `owner` that of the tenant if the row is a member. `parent` is the group
    above, None for the pool itself. None for the others keeps what the group or member has. A list of
    amounts replaces all of its kind. Only members have `lend`.
    """

    place: Place
    name: str
    owner: str | None
    parent: str | None
    title: str | None = None
    weight: Decimal | None = None
    tier: int | None = None
    limit: Sequence[Limit] | None = None
    guarantee: Sequence[Limit] | None = None
    lend: Sequence[Limit] | None = None
    own_servers: str | None = None

    @property
    def amounts(self) -> dict[str, Sequence[Limit]]:
        """Amounts that the row states, by kind."""
        kinds = {"guarantee": self.guarantee, "limit": self.limit, "lend": self.lend}
        return {kind: amounts for kind, amounts in kinds.items() if amounts is not None}


Row = TypeVar("Row", NodeRow, WorkloadRow, UsageRow, TenantRow, TreeRow)


@dataclass(frozen=True)
class RefusedRow:
    """A row that cannot be imported, with all of its errors."""

    place: Place
    name: str
    errors: Sequence[FieldError]


@dataclass(frozen=True)
class SkippedRow:
    """A row that is omitted, with the reason."""

    place: Place
    name: str
    reason: str


@dataclass(frozen=True)
class ImportedFile(Generic[Row]):
    """The rows of a file, and its resources that the pool does not count.

    `by_kinds` returns the rows for pools that cannot run all gangs, by the most kinds of pieces that a
    task may have: with 1, pieces of gangs of two kinds are tasks of their own, with 0 those of all
    gangs. It is None if the file leaves no such choice. With `selects_if_placed`, rows select servers
    only in pools whose policy places tasks.
    """

    rows: Sequence[Row | RefusedRow | SkippedRow]
    ignored: Sequence[str] = ()
    by_kinds: Callable[[int], Sequence[Row | RefusedRow | SkippedRow]] | None = None
    selects_if_placed: bool = False


NodeFile = ImportedFile[NodeRow]
WorkloadFile = ImportedFile[WorkloadRow]
UsageFile = ImportedFile[UsageRow]
TenantFile = ImportedFile[TenantRow]
TreeFile = ImportedFile[TreeRow]


@dataclass(frozen=True)
class Owner:
    """The owner of rows that name none, given as a slug or as a label that holds it."""

    slug: str | None = None
    label: str | None = None

    def of(self, labels: Mapping[str, object]) -> str | None:
        """Return the owner for an object with these labels, or None."""
        named = labels.get(self.label) if self.label else None
        return named if isinstance(named, str) and named else self.slug


@dataclass(frozen=True)
class ImportChoice:
    """Options of an import.

    `dry_run` writes nothing, `skip_refused` writes the other rows, `register_tenants` registers
    unknown ones. `cluster` is that of the caller, empty for callers of all clusters.
    """

    dry_run: bool = False
    skip_refused: bool = False
    register_tenants: bool = False
    cluster: str = ""


@dataclass(frozen=True)
class RowReport:
    """The outcome of one row, with its errors if refused and the detail if skipped.

    `objects` is the number of objects that the row stands for, such as the count of identical
    servers.
    """

    place: Place
    name: str
    owner: str | None
    outcome: Outcome
    detail: str = ""
    errors: Sequence[FieldError] = ()
    objects: int = 1


@dataclass(frozen=True)
class ImportReport:
    """The outcome of a file. `written` is true if anything changed.

    `generation` is the pool's, and 0 for tenants, which belong to no pool.
    """

    rows: Sequence[RowReport]
    ignored: Sequence[str]
    registered: Sequence[str]
    generation: int
    written: bool

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows by outcome, zeros included."""
        counted = Counter(row.outcome for row in self.rows)
        return {outcome.value: counted[outcome] for outcome in Outcome}

    @property
    def objects(self) -> dict[str, int]:
        """The number of objects by outcome, without zeros."""
        counted: Counter[str] = Counter()
        for row in self.rows:
            counted[row.outcome.value] += row.objects
        return {name.value: counted[name.value] for name in Outcome if counted[name.value]}

    @property
    def refused(self) -> list[RowReport]:
        return [row for row in self.rows if row.outcome is Outcome.REFUSED]
