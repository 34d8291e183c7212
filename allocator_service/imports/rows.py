"""What a file holds, row by row, and what an import made of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Generic, TypeVar

from allocator_service.core.errors import FieldError

Selector = dict[str, str | list[str]]


class Outcome(StrEnum):
    """What became of a row: `skipped` ones ask for nothing, such as a pod that has finished."""

    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Place:
    """Where a row stands in its file: the line of a CSV from 1, the item of a JSON list from 0."""

    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


@dataclass(frozen=True)
class NodeRow:
    """A server, or `count` identical ones. `draining` is None where the format does not tell."""

    place: Place
    name: str
    owner: str | None
    capacity: Sequence[Decimal]
    labels: dict[str, str]
    count: int = 1
    draining: bool | None = None


@dataclass(frozen=True)
class WorkloadRow:
    """A workload; `demand` is that of one task, `tasks` None is no limit."""

    place: Place
    name: str
    owner: str
    demand: Sequence[Decimal]
    tasks: int | None
    priority: int = 0
    selector: Selector = field(default_factory=dict)


@dataclass(frozen=True)
class UsageRow:
    """What was used over `[start, end)`: `name` is its permanent id at `source`."""

    place: Place
    name: str
    owner: str
    source: str
    amounts: Sequence[Decimal]
    start: datetime
    end: datetime


@dataclass(frozen=True)
class TenantRow:
    """A tenant: `name` is its slug, `title` its name. It belongs to nobody: `owner` is always None."""

    place: Place
    name: str
    title: str
    owner: None = None


Row = TypeVar("Row", NodeRow, WorkloadRow, UsageRow, TenantRow)


@dataclass(frozen=True)
class RefusedRow:
    """A row that cannot be imported, with everything that is wrong with it."""

    place: Place
    name: str
    errors: Sequence[FieldError]


@dataclass(frozen=True)
class SkippedRow:
    """A row that is read and left out, and why."""

    place: Place
    name: str
    reason: str


@dataclass(frozen=True)
class ImportedFile(Generic[Row]):
    """The rows of a file, and the resources it tells that the pool does not count."""

    rows: Sequence[Row | RefusedRow | SkippedRow]
    ignored: Sequence[str] = ()


NodeFile = ImportedFile[NodeRow]
WorkloadFile = ImportedFile[WorkloadRow]
UsageFile = ImportedFile[UsageRow]
TenantFile = ImportedFile[TenantRow]


@dataclass(frozen=True)
class Owner:
    """Whose the rows are that do not say: the tenant `slug`, or what their label `label` names."""

    slug: str | None = None
    label: str | None = None

    def of(self, labels: Mapping[str, object]) -> str | None:
        """The owner that these labels of an object stand for, None for nobody's."""
        named = labels.get(self.label) if self.label else None
        return named if isinstance(named, str) and named else self.slug


@dataclass(frozen=True)
class ImportChoice:
    """How to import: only tell (`dry_run`), write in spite of refused rows, register tenants."""

    dry_run: bool = False
    skip_refused: bool = False
    register_tenants: bool = False


@dataclass(frozen=True)
class RowReport:
    """What became of one row; `errors` are why it was refused, `detail` why it was skipped.

    `objects` is how many it stands for: a row of servers with a count, for as many.
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
    """What became of a file. `written` says whether anything changed.

    `generation` is the pool's, 0 where the file is of no pool.
    """

    rows: Sequence[RowReport]
    ignored: Sequence[str]
    registered: Sequence[str]
    generation: int
    written: bool

    @property
    def counts(self) -> dict[str, int]:
        """How many rows had each outcome, those that none had included."""
        counted = Counter(row.outcome for row in self.rows)
        return {outcome.value: counted[outcome] for outcome in Outcome}

    @property
    def objects(self) -> dict[str, int]:
        """The same of what the rows stand for, without outcomes that none had."""
        counted: Counter[str] = Counter()
        for row in self.rows:
            counted[row.outcome.value] += row.objects
        return {name.value: counted[name.value] for name in Outcome if counted[name.value]}

    @property
    def refused(self) -> list[RowReport]:
        return [row for row in self.rows if row.outcome is Outcome.REFUSED]
