"""Import of a tree of groups and members."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from django.db import transaction

from allocator_service.core.errors import FieldError
from allocator_service.imports.importing import (
    Owners,
    Progress,
    Work,
    no_progress,
    rows_import,
    rows_of,
)
from allocator_service.imports.rows import (
    ImportChoice,
    ImportReport,
    Outcome,
    RefusedRow,
    TreeFile,
    TreeRow,
)
from allocator_service.pools.gangs import refuse_gangs
from allocator_service.pools.group_services import (
    GroupDraft,
    GroupSettings,
    groups_put,
    refuse_too_many,
)
from allocator_service.pools.group_tree import MAX_DEPTH, group_levels
from allocator_service.pools.guarantees import (
    AmountChange,
    ExceededLimit,
    limits_exceeded_by,
    refuse_limits_below_guarantees,
)
from allocator_service.pools.limits import (
    Limit,
    count_errors,
    dates_kept,
    is_same_list,
    limit_errors,
    limits_count,
    limits_from,
    refuse_amounts,
    refuse_limits,
    refuse_selections,
    refuse_too_many_selections,
)
from allocator_service.pools.locking import pool_lock
from allocator_service.pools.member_services import MemberDraft, members_put
from allocator_service.pools.models import GroupTerms, MembershipTerms, OwnServers, Pool
from allocator_service.pools.policy import refuse_groups
from allocator_service.pools.selectors import group_terms_of, members_of

KINDS = ("guarantee", "limit", "lend")
# A node, as true for a member and its slug.
_Key = tuple[bool, str]


@transaction.atomic
def tree_import(
    *,
    pool: Pool,
    file: TreeFile,
    choice: ImportChoice,
    now: datetime,
    progress: Progress = no_progress,
) -> ImportReport:
    """Create and change the groups of a file, and put its members where they belong.

    A row and a group or member match by slug. Groups and members that the file does not name stay.
    Nothing is written in a dry run, or if a row is refused and refused rows are not skipped. Raises
    `Unacceptable` for a pool whose policy takes no groups, and above 10,000 groups.
    """
    # Locked before the rows are compared, so that the comparison holds when they are written.
    if not choice.dry_run:
        pool = pool_lock(pool)
    refuse_groups(pool.policy_name, pool.policy_options, pointer="")
    work = _Tree(pool, file, now)
    return rows_import(pool=pool, file=file, work=work, choice=choice, now=now, progress=progress)


class _Tree(Work[TreeRow]):
    """Groups and members of a file, matched with those of the pool."""

    row_type = TreeRow

    def __init__(self, pool: Pool, file: TreeFile, now: datetime) -> None:
        self._pool = pool
        self._groups = {terms.group.slug: terms for terms in group_terms_of(pool=pool)}
        self._members = {terms.membership.tenant.slug: terms for terms in members_of(pool=pool)}
        self._mistakes = _Mistakes(file, self._groups)
        refuse_too_many(self._mistakes.count)
        rows = rows_of(file, TreeRow)
        for kind in KINDS:
            if any(row.amounts.get(kind) for row in rows):
                refuse_limits(pool.policy_name, pool.policy_options, pointer=f"/{kind}", kind=kind)
        if any(row.guarantee for row in rows):
            refuse_gangs(pool, now=now, pointer="/guarantee", guaranteed=True)
        if any(row.own_servers == OwnServers.YES for row in rows):
            refuse_limits(
                pool.policy_name, pool.policy_options, pointer="/own_servers", kind="guarantee"
            )
            refuse_gangs(pool, now=now, pointer="/own_servers", guaranteed=True)
        self._amounts = _Amounts(pool, rows, self._groups, self._members)
        self._amounts.refuse_too_many()
        # Guarantees are summed over a tree, and with mistakes the parents may not be one.
        self._below_guarantees = {} if self._mistakes.found else self._amounts.errors(now)
        self._kept = dates_kept(
            pool, (each for row in rows for given in row.amounts.values() for each in given)
        )
        self._resources = set(pool.resource_types.values_list("name", flat=True))
        self._added: list[TreeRow] = []
        self._changed: list[TreeRow] = []
        self._moved: list[TreeRow] = []

    def errors(self, row: TreeRow) -> Iterable[FieldError | None]:
        return [
            self._mistakes.of(row),
            self._below_guarantees.get(row.place.number),
            *(
                error
                for kind, amounts in row.amounts.items()
                for error in count_errors(amounts, f"/{kind}", kind)
            ),
            *(
                error
                for kind, amounts in row.amounts.items()
                for amount in amounts
                for error in limit_errors(
                    self._pool, amount, self._resources, f"/{kind}", kind, kept=self._kept
                )
            ),
        ]

    def classify(self, row: TreeRow) -> Outcome:
        if row.owner is not None:
            return self._classify_member(row)
        present = self._groups.get(row.name)
        if present is None:
            self._added.append(row)
            return Outcome.ADDED
        # Amounts are compared by their meaning, not as they are written.
        settings = replace(_settings(row, present), limit=None, guarantee=None, own_servers=None)
        if settings == _present_settings(present) and _keeps_amounts(row, present):
            return Outcome.UNCHANGED
        self._changed.append(row)
        return Outcome.CHANGED

    def _classify_member(self, row: TreeRow) -> Outcome:
        present = self._members.get(row.name)
        if present is not None:
            group = present.group.slug if present.group else None
            same = (group, present.weight, present.tier) == (row.parent, *_terms(row, present))
            if same and _keeps_amounts(row, present):
                return Outcome.UNCHANGED
        self._moved.append(row)
        return Outcome.ADDED if present is None else Outcome.CHANGED

    def has_changes(self) -> bool:
        return bool(self._added or self._changed or self._moved)

    def write(self, owners: Owners, now: datetime, progress: Progress) -> None:
        # Refused rows are left out, so that the tree may differ from the one that was compared.
        refuse_limits_below_guarantees(
            self._pool,
            self._amounts.changes([*self._added, *self._changed, *self._moved]),
            now=now,
        )
        if self._added or self._changed:
            groups_put(
                pool=self._pool,
                drafts=[GroupDraft(row.name, _settings(row, None)) for row in self._added],
                changes=[
                    GroupDraft(row.name, _settings(row, self._groups[row.name]))
                    for row in self._changed
                ],
                now=now,
                # Members follow, and the tree after them is compared.
                is_last=False,
            )
        drafts = []
        for row in self._moved:
            weight, tier = _terms(row, self._members.get(row.name))
            drafts.append(
                MemberDraft(
                    *(owners.tenant(row.name), weight, row.parent, tier),
                    guarantee=row.guarantee,
                    limit=row.limit,
                    lend=row.lend,
                    own_servers=row.own_servers,
                )
            )
        if drafts:
            members_put(pool=self._pool, drafts=drafts, now=now, is_last=False)
            progress("members", len(drafts), len(drafts))
        if self._added or self._changed or self._moved:
            refuse_too_many_selections(self._pool)


class _Amounts:
    """Amounts of all groups and members after the import, compared before any of them is written."""

    def __init__(
        self,
        pool: Pool,
        rows: Sequence[TreeRow],
        groups: Mapping[str, GroupTerms],
        members: Mapping[str, MembershipTerms],
    ) -> None:
        self._pool = pool
        self._rows: dict[_Key, TreeRow] = {}
        for row in rows:
            # The first of several rows of a node counts; the others are duplicates.
            self._rows.setdefault((row.owner is not None, row.name), row)
        self._present: dict[_Key, GroupTerms | MembershipTerms] = {
            **{(False, slug): terms for slug, terms in groups.items()},
            **{(True, slug): terms for slug, terms in members.items()},
        }
        self._changed = [kind for kind in KINDS if any(row.amounts.get(kind) for row in rows)]

    def refuse_too_many(self) -> None:
        """Raise `Unacceptable` for more amounts, selections of servers or lenders than a pool has."""
        if not self._changed:
            return
        more = sum(
            len(amounts) - len(getattr(self._present.get(key), kind, ()))
            for key, row in self._rows.items()
            for kind, amounts in row.amounts.items()
        )
        refuse_amounts(limits_count(self._pool) + more, pointer=f"/{self._changed[0]}")
        keys = {**self._present, **self._rows}
        refuse_selections(
            (self._of(key, "guarantee") for key in keys),
            lenders=sum(
                1 for is_member, slug in keys if is_member and self._of((True, slug), "lend")
            ),
        )

    def errors(self, now: datetime) -> dict[int, FieldError]:
        """Return an error for the row of each limit that is less than the guarantees under it.

        They are by the number of the row. A row that sets the limit has the error, or else one that
        sets a guarantee under it, or moves one there.
        """
        found: dict[int, FieldError] = {}
        changes = self.changes(self._rows.values())
        for exceeded in limits_exceeded_by(self._pool, changes, now=now):
            row, kind = self._row_of(exceeded)
            error = FieldError(f"/{kind}", "limit.below_guarantees", exceeded.detail)
            found.setdefault(row.place.number, error)
        return found

    def changes(self, rows: Iterable[TreeRow]) -> list[AmountChange]:
        """Return rows as changes of amounts."""
        changes = []
        for row in rows:
            key = (row.owner is not None, row.name)
            present = self._present.get(key)
            changes.append(
                AmountChange(
                    *key,
                    row.parent,
                    row.amounts.get("guarantee"),
                    row.amounts.get("limit"),
                    present is not None and row.parent != self._parent_of(present),
                )
            )
        return changes

    def _row_of(self, exceeded: ExceededLimit) -> tuple[TreeRow, str]:
        """Return the row that makes a limit less than the guarantees under it, and its field."""
        if exceeded.change is not None:
            field = exceeded.place.split("/")[1]
            # A row names the group of a member as its parent.
            return self._rows[exceeded.change.key], "parent" if field == "group" else field
        below = {node.key for node in exceeded.node.below_and_itself()}
        rows = [row for key, row in self._rows.items() if key in below]
        return min(rows, key=lambda row: row.place.number), "guarantee"

    def _of(self, key: "_Key", kind: str) -> Sequence[Limit]:
        row = self._rows.get(key)
        if row is not None and kind in row.amounts:
            return row.amounts[kind]
        return limits_from(getattr(self._present.get(key), kind, ()))

    @staticmethod
    def _parent_of(terms: GroupTerms | MembershipTerms) -> str | None:
        above = terms.group if isinstance(terms, MembershipTerms) else terms.parent
        return above.slug if above else None


class _Mistakes:
    """Errors of rows that cannot be part of a tree, found before any of them is written.

    A row whose parent is refused is refused, too. `count` is the number of groups after the import.
    """

    def __init__(self, file: TreeFile, present: Mapping[str, GroupTerms]) -> None:
        rows = rows_of(file, TreeRow)
        self._found: dict[int, FieldError] = {}
        self._parents: dict[str, str | None] = {
            slug: terms.parent.slug if terms.parent else None for slug, terms in present.items()
        }
        self._unreadable = {
            row.name: row for row in file.rows if isinstance(row, RefusedRow) and row.name
        }
        groups: dict[str, TreeRow] = {}
        for row in rows:
            if row.owner is None:
                # The first of several rows of a group counts; the others are duplicates.
                groups.setdefault(row.name, row)
        self._rows = groups
        self._parents |= {slug: row.parent for slug, row in groups.items()}
        self.count = len(self._parents)
        self._refuse_unknown(present)
        self._refuse_shape()
        for row in rows:
            if row.owner is not None and row.parent is not None:
                error = self._error_of_parent(row.parent)
                if error is not None:
                    self._found[row.place.number] = error

    @property
    def found(self) -> bool:
        """True if any row has an error."""
        return bool(self._found)

    def of(self, row: TreeRow) -> FieldError | None:
        """Return the error of a row, if any."""
        return self._found.get(row.place.number)

    def _refuse_unknown(self, present: Mapping[str, GroupTerms]) -> None:
        """Refuse groups below groups that there are not, down to the last of their descendants."""
        below: dict[str, list[str]] = {}
        for slug, parent in self._parents.items():
            if parent is not None:
                below.setdefault(parent, []).append(slug)
        refused = [parent for parent in below if parent not in self._parents]
        while refused:
            parent = refused.pop()
            for slug in below.get(parent, ()):
                row = self._rows.get(slug)
                if row is None or row.place.number in self._found:
                    continue
                self._found[row.place.number] = self._unknown(parent)
                # A present group keeps its parent, and the groups below it keep theirs.
                if slug not in present:
                    refused.append(slug)
        for slug, row in self._rows.items():
            if row.place.number in self._found:
                terms = present.get(slug)
                if terms is None:
                    del self._parents[slug]
                else:
                    self._parents[slug] = terms.parent.slug if terms.parent else None

    def _refuse_shape(self) -> None:
        """Refuse rows on or below a cycle, and those that are or push others too deep."""
        level, changed_above = group_levels(self._parents, self._rows)
        for slug, row in self._rows.items():
            if slug in self._parents and slug not in level:
                detail = f'The parents of "{slug}" lead back to it, or to a group above it.'
                self._found.setdefault(
                    row.place.number, FieldError("/parent", "group.cycle", detail)
                )
        for slug, depth in level.items():
            changed = changed_above[slug]
            if depth > MAX_DEPTH and changed is not None:
                detail = (
                    f'"{slug}" would be {depth} levels below the pool; at most {MAX_DEPTH} are'
                    " allowed."
                )
                self._found.setdefault(
                    self._rows[changed].place.number,
                    FieldError("/parent", "group.too_deep", detail),
                )

    def _error_of_parent(self, parent: str) -> FieldError | None:
        row = self._rows.get(parent)
        if parent in self._parents and (row is None or row.place.number not in self._found):
            return None
        return self._unknown(parent)

    def _unknown(self, parent: str) -> FieldError:
        refused = self._rows.get(parent) or self._unreadable.get(parent)
        detail = (
            f'Neither the pool nor the file has a group "{parent}".'
            if refused is None
            else f'The group "{parent}" is refused at {refused.place}.'
        )
        return FieldError("/parent", "group.unknown", detail)


def _settings(row: TreeRow, present: GroupTerms | None) -> GroupSettings:
    """Return the settings after the import.

    Settings that the row does not state stay.
    """
    weight, tier = _terms(row, present)
    name = row.name if present is None else present.group.name
    return GroupSettings(
        *(row.title or name, row.parent, weight, tier),
        limit=row.limit,
        guarantee=row.guarantee,
        own_servers=row.own_servers,
    )


def _keeps_amounts(row: TreeRow, present: GroupTerms | MembershipTerms) -> bool:
    """Return true if the row states no amounts and no setting of own servers but the present ones."""
    return row.own_servers in (None, present.own_servers) and all(
        is_same_list(amounts, limits_from(getattr(present, kind)))
        for kind, amounts in row.amounts.items()
    )


def _present_settings(terms: GroupTerms) -> GroupSettings:
    parent = terms.parent.slug if terms.parent else None
    return GroupSettings(terms.group.name, parent, terms.weight, terms.tier)


def _terms(row: TreeRow, present: GroupTerms | MembershipTerms | None) -> tuple[Decimal, int]:
    weight, tier = (Decimal(1), 0) if present is None else (present.weight, present.tier)
    return (
        weight if row.weight is None else row.weight,
        tier if row.tier is None else row.tier,
    )
