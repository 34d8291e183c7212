"""Pods that start together, as tasks of several pieces.

The rules are those of the agents, whose `feeding` states them too, because an agent imports nothing of
the project: tests/kueue_cases.py is read by both.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from allocator_service.core.quantities import Resource
from allocator_service.imports.checks import check_selector
from allocator_service.imports.rows import Place, WorkloadRow
from allocator_service.workloads.gangs import MAX_PIECES, Gang, Piece

Selection = tuple[tuple[str, tuple[str, ...]], ...]
Kind = tuple[tuple[Decimal, ...], int]  # the demand of a piece, and the pieces of a task


@dataclass(frozen=True)
class Pods:
    """Pods of one shape.

    `group` names what starts together with its namespace, and is empty for pods by themselves.
    """

    place: Place
    tenant: str
    controller: tuple[str, str]
    demand: tuple[Decimal, ...]
    selection: Selection
    count: int = 1
    group: str = ""


@dataclass(frozen=True, order=True)
class _Workload:
    """The properties that the tasks of one workload share."""

    tenant: str
    controller: tuple[str, str]
    kinds: tuple[Kind, ...]
    selection: Selection


def rows_of_pods(
    pods: Sequence[Pods], resources: Sequence[Resource], *, most_kinds: int
) -> list[WorkloadRow]:
    """Return pods as workloads, one for each controller, shape and selector.

    What starts together is one task of several pieces, if these are of `most_kinds` at most.
    A second workload of the same controller is `<name>-2`, in the order of demands and selectors.
    """
    tasks: Counter[_Workload] = Counter()
    places: dict[_Workload, Place] = {}
    of_groups: set[_Workload] = set()
    for parts in _started_together(pods):
        for workload, count in _tasks(parts, most_kinds=most_kinds):
            tasks[workload] += count
            places.setdefault(workload, parts[0].place)
            if parts[0].group:
                of_groups.add(workload)
    # Sorted, so that the same pods in another order get the same names and an import changes
    # nothing.
    used: Counter[tuple[str, str]] = Counter()
    rows = []
    for workload in sorted(tasks):
        name = workload.controller[1]
        used[workload.tenant, name] += 1
        number = used[workload.tenant, name]
        gang = _gang(workload, resources)
        selector = {label: list(values) for label, values in workload.selection}
        rows.append(
            WorkloadRow(
                places[workload],
                # Shortened, so that a name with its number keeps within 253 characters.
                name if number == 1 else f"{name[:240]}-{number}",
                workload.tenant,
                list(workload.kinds[0][0]) if gang.is_plain else gang.demand(resources),
                tasks[workload],
                selector=check_selector(selector, "/spec/nodeSelector"),
                # A pod outside of groups states nothing about pieces.
                gang=gang if workload in of_groups else None,
            )
        )
    return rows


def _started_together(pods: Iterable[Pods]) -> list[list[Pods]]:
    """Return pods in lists that start together, those of one group in one of them."""
    groups: defaultdict[tuple[str, str], list[Pods]] = defaultdict(list)
    found: list[list[Pods]] = []
    for each in pods:
        # A task belongs to one tenant, although a group may have pods of several.
        parts = groups[each.tenant, each.group] if each.group else []
        if not parts:
            found.append(parts)
        parts.append(each)
    return found


def _tasks(parts: Sequence[Pods], *, most_kinds: int) -> Iterator[tuple[_Workload, int]]:
    """Yield the workloads of pods that start together, each with its number of tasks."""
    kinds: Counter[tuple[Decimal, ...]] = Counter()
    for part in parts:
        if any(part.demand):
            kinds[part.demand] += part.count
    first = parts[0]
    is_gang = first.group and len(kinds) <= most_kinds
    alike = len({part.selection for part in parts}) == 1
    # A task has one selector: pods that select differently are tasks by themselves.
    if is_gang and alike and 1 < sum(kinds.values()) <= MAX_PIECES:
        controllers = {part.controller for part in parts}
        name = first.group.rpartition("/")[2]
        # Pods of several controllers are named after their group.
        controller = first.controller if len(controllers) == 1 else ("", name)
        yield (
            _Workload(first.tenant, controller, tuple(sorted(kinds.items())), first.selection),
            1,
        )
        return
    for part in parts:
        if any(part.demand):
            shape = ((part.demand, 1),)
            yield _Workload(part.tenant, part.controller, shape, part.selection), part.count


def _gang(workload: _Workload, resources: Sequence[Resource]) -> Gang:
    """Return the pieces of a workload, none for tasks of one piece."""
    if sum(count for _, count in workload.kinds) == 1:
        return Gang()
    names = [resource.name for resource in resources]
    return Gang(
        tuple(
            Piece(
                count, {name: amount for name, amount in zip(names, demand, strict=True) if amount}
            )
            for demand, count in workload.kinds
        )
    )
