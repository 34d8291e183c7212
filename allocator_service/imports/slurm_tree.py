"""A tree of groups and members from `sacctmgr --parsable2 show association tree`.

Accounts are indented by their depth, and each account comes after the one above it. An account with
accounts below it is a group, any other one a member. Weights are fair shares.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import Resource
from allocator_service.imports.checks import check_title, check_weight, check_width, slug_from_name
from allocator_service.imports.measures import ROUND_CAPACITY, Measures
from allocator_service.imports.reading import check_row_count, errors_of
from allocator_service.imports.rows import (
    Owner,
    Place,
    RefusedRow,
    SkippedRow,
    TreeFile,
    TreeRow,
)
from allocator_service.imports.slurm import GRES_LABEL
from allocator_service.imports.tres import tres_quantities
from allocator_service.pools.limits import Limit

COMMAND = (
    "sacctmgr --parsable2 show association tree format=cluster,account,user,partition,fairshare"
)
REQUIRED = ("Account", "User")
TENANT_COLUMNS = ("Account", "User")
ROOT = "root"
_AS_PARENT = "parent"
# sacctmgr prints the one or the other, by its version and the name of the field that was asked for.
_SHARES = ("Share", "Fairshare")
_LIMITS = "GrpTRES"


@dataclass(frozen=True)
class _Line:
    """A row of the output.

    `depth` is the number of blanks before the account.
    """

    place: Place
    cells: dict[str, str]
    depth: int
    account: str

    @property
    def user(self) -> str:
        return self.cells["User"]

    @property
    def share(self) -> str:
        return next((self.cells[name] for name in _SHARES if name in self.cells), "")


def slurm_tree(content: str, resources: Sequence[Resource], owner: Owner) -> TreeFile:
    """Read the groups and members that the accounts of a cluster are.

    The column `GrpTRES`, if there is one, has limits. With the label `User`, members are the users, and
    every account is a group. Raises `Unacceptable` for content that is not the output of sacctmgr.
    """
    members = owner.label or TENANT_COLUMNS[0]
    if members not in TENANT_COLUMNS:
        raise Unacceptable(
            f'Members are the column {" or ".join(TENANT_COLUMNS)}, got "{members[:40]}".',
            code="import.owner",
        )
    lines = content.splitlines()
    header = lines[0].rstrip("|").split("|") if lines else []
    missing = [name for name in REQUIRED if name not in header]
    if missing:
        raise Unacceptable(
            f"Line 1 lacks the columns {', '.join(missing)}: import the output of {COMMAND}.",
            code="import.shape",
        )
    check_row_count(len(lines) - 1)
    measures = Measures(resources)
    reading = _Reading(_lines(lines, header), measures, by_user=members == "User")
    return TreeFile(reading.rows(), measures.ignored)


def _lines(lines: Sequence[str], header: Sequence[str]) -> list[_Line | RefusedRow]:
    found: list[_Line | RefusedRow] = []
    clusters: set[str] = set()
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        place, values = Place("line", number), line.split("|")
        # `--parsable` ends each line with a separator, `--parsable2` does not.
        values = values[:-1] if len(values) == len(header) + 1 and not values[-1] else values
        try:
            check_width(values, header)
        except Unacceptable as error:
            found.append(RefusedRow(place, values[0][:80], errors_of(error)))
            continue
        cells = dict(zip(header, values, strict=True))
        clusters.add(cells.get("Cluster", ""))
        account = cells["Account"].lstrip(" ")
        found.append(_Line(place, cells, len(cells["Account"]) - len(account), account))
    if len(clusters) > 1:
        raise Unacceptable(
            f"The file has the trees of {len(clusters)} clusters: name one, as cluster=NAME.",
            code="import.shape",
        )
    return found


class _Reading:
    """One reading of the lines of a cluster."""

    def __init__(
        self, lines: Sequence[_Line | RefusedRow], measures: Measures, *, by_user: bool
    ) -> None:
        self._lines, self._measures, self._by_user = lines, measures, by_user
        self._above: dict[int, str] = {}  # the account above each line, by its number
        self._children: Counter[str] = Counter()
        self._shares: dict[str, set[str]] = {}  # of siblings, by the account above them
        path: list[str] = []
        for line in lines:
            if isinstance(line, RefusedRow):
                continue
            if line.user:
                # A user is below its account, which it repeats one blank further in.
                self._above[line.place.number] = line.account
            else:
                del path[line.depth :]
                self._above[line.place.number] = path[-1] if path else ""
                self._children[path[-1] if path else ""] += 1
                path.append(line.account)
            self._shares.setdefault(self._above[line.place.number], set()).add(line.share)

    def rows(self) -> list[TreeRow | RefusedRow | SkippedRow]:
        return list(self._read())

    def _read(self) -> Iterator[TreeRow | RefusedRow | SkippedRow]:
        for line in self._lines:
            if isinstance(line, RefusedRow):
                yield line
                continue
            name = line.user or line.account
            reason = self._skipped(line)
            if reason:
                yield SkippedRow(line.place, name[:80], reason)
                continue
            try:
                yield self._row(line)
            except Unacceptable as error:
                yield RefusedRow(line.place, name[:80], errors_of(error))

    def _skipped(self, line: _Line) -> str:
        """Return why a line is neither a group nor a member, or nothing."""
        if line.account == ROOT:
            return "The root account, which is the pool itself."
        if line.user and not self._by_user:
            return "A user of an account."
        if line.user and line.cells.get("Partition"):
            return "A user's association with one partition."
        return ""

    def _row(self, line: _Line) -> TreeRow:
        above = self._above[line.place.number]
        parent = None if above in ("", ROOT) else slug_from_name(above, "/Account")
        weight, limit = self._weight(line, above), self._limit(line)
        if line.user:
            slug = slug_from_name(line.user, "/User")
            return TreeRow(line.place, slug, slug, parent, weight=weight, limit=limit)
        slug = slug_from_name(line.account, "/Account")
        if self._by_user or self._children[line.account]:
            title = check_title(line.account, "/Account")
            return TreeRow(line.place, slug, None, parent, title, weight, limit=limit)
        return TreeRow(line.place, slug, slug, parent, weight=weight, limit=limit)

    def _limit(self, line: _Line) -> list[Limit] | None:
        """Return `GrpTRES` as limits, or None for an empty cell.

        An amount of a model, such as gres/gpu:a100, is for the servers that nodes with it become.
        """
        cell = line.cells.get(_LIMITS, "")
        if not cell:
            return None
        by_model: dict[tuple[str, str], dict[str, object]] = {}
        for name, amount in tres_quantities(cell, f"/{_LIMITS}").items():
            kind, _, model = name.partition(":")
            servers = (kind.rpartition("/")[2], model) if model else ("", "")
            # Slurm counts memory in MiB.
            mib = "Mi" if kind == "memory" and amount[-1].isdecimal() else ""
            by_model.setdefault(servers, {})[kind] = f"{amount}{mib}"
        limits = []
        for (kind, model), quantities in by_model.items():
            amounts = self._measures.named(
                quantities, rounding=ROUND_CAPACITY, pointer=f"/{_LIMITS}"
            )
            if amounts:
                where: dict[str, str | list[str]] = {GRES_LABEL + kind: [model]} if model else {}
                limits.append(Limit(amounts, where))
        return limits or None

    def _weight(self, line: _Line, above: str) -> Decimal | None:
        """Return the fair share as a weight, or None without such a column."""
        share = line.share
        if not share:
            return None
        if share != _AS_PARENT:
            return check_weight(share, "/Share")
        if self._shares[above] == {_AS_PARENT}:
            return Decimal(1)
        raise Unacceptable(
            "Fairshare=parent is no weight beside siblings with a number: set one by sacctmgr.",
            code="field.type",
            pointer="/Share",
        )
