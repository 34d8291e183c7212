"""Answers about the same problem under other names, with the floors by which they are proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from policies.floors.parts import OF_OWNER, PART, free_prefix
from policies.model.allocation import Allocation, Floors
from policies.model.problem import Problem
from policies.model.reasons import LIMIT

T = TypeVar("T")
_OF_GROUP = f"{LIMIT}:group:"


def renamed_answer(answer: Allocation, problem: Problem) -> Allocation:
    """Return an answer about a problem that differs from the answer's own in names and labels alone.

    Parameters
    ----------
    answer : Allocation
        Any answer.
    problem : Problem
        The same problem, with other names of tenants, workloads, groups, servers and labels.

    Returns
    -------
    Allocation
        The answer, whose reasons and floors have the names of ``problem`` as well.

    Examples
    --------
    >>> import numpy as np
    >>> from policies import Guarantee, Problem, renamed_answer, solve
    >>> a, b = (
    ...     Problem.create(resources=["gpu"], capacity=[[8]], tenants=[name], demand=[[1]],
    ...         guarantees=[Guarantee("tenant", 0, np.array([4.0]))]) for name in "AB")
    >>> renamed_answer(solve(a, "drfh"), b).floors.raised.problem.tenants
    ('B', 'part0')
    """
    names = _Names.of(answer.problem, problem)
    reasons = tuple(names.reason(each) for each in answer.limited_by)
    floors = None if answer.floors is None else names.floors(answer.floors)
    return replace(answer, problem=problem, limited_by=reasons, floors=floors)


@dataclass(frozen=True)
class _Names:
    """New names by the old ones, and the two problems that they are of."""

    old: Problem
    new: Problem
    tenants: dict[str, str]
    workloads: dict[tuple[str, str], str]
    groups: dict[str, str]
    servers: dict[str, int]

    @classmethod
    def of(cls, old: Problem, new: Problem) -> _Names:
        owners = [old.tenants[i] for i in old.workload_tenant.tolist()]
        return cls(
            old=old,
            new=new,
            tenants=dict(zip(old.tenants, new.tenants, strict=True)),
            workloads=dict(
                zip(zip(owners, old.workload_names, strict=True), new.workload_names, strict=True)
            ),
            groups=dict(zip(old.groups, new.groups, strict=True)),
            servers={name: row for row, name in enumerate(old.server_names)},
        )

    def reason(self, limited_by: str) -> str:
        """Return a reason with the new name of the group that it names."""
        if not limited_by.startswith(_OF_GROUP):
            return limited_by
        return f"{_OF_GROUP}{self.groups[limited_by.removeprefix(_OF_GROUP)]}"

    def floors(self, floors: Floors) -> Floors:
        """Return the answers of the steps about the renamed problem."""
        pools = tuple(
            None if each is None else renamed_answer(each, self._pool(each.problem))
            for each in floors.pools
        )
        raised, rest = (
            renamed_answer(each, self._step(each.problem)) for each in (floors.raised, floors.rest)
        )
        return replace(floors, pools=pools, raised=raised, rest=rest)

    def _pool(self, pool: Problem) -> Problem:
        """Return the pool of a guarantee or of own servers, whose names are some of the problem's."""
        owners = [pool.tenants[i] for i in pool.workload_tenant.tolist()]
        names = zip(owners, pool.workload_names, strict=True)
        rows = [self.servers.get(name) for name in pool.server_names]
        return replace(
            pool,
            tenants=tuple(self.tenants[name] for name in pool.tenants),
            workload_names=tuple(self.workloads[name] for name in names),
            groups=tuple(self.groups[name] for name in pool.groups),
            server_names=self._rows(pool.server_names, self.new.server_names, rows),
            server_labels=self._rows(pool.server_labels, self.new.server_labels, rows),
        )

    @staticmethod
    def _rows(own: Sequence[T], of_all: Sequence[T], rows: Sequence[int | None]) -> tuple[T, ...]:
        # The one server of a guarantee's pool is none of the problem's.
        return tuple(
            mine if row is None else of_all[row] for mine, row in zip(own, rows, strict=True)
        )

    def _step(self, step: Problem) -> Problem:
        """Return a step's problem, with the names of the problem and then those of parts."""
        new, prefix = self.new, free_prefix(PART, self.new.tenants)
        parts = tuple(f"{prefix}{number}" for number in range(step.t - new.t))
        of_owner = len(free_prefix(OF_OWNER, self.old.groups))
        owners = [self.tenants[name[of_owner:]] for name in step.groups[len(new.groups) :]]
        prefix = free_prefix(OF_OWNER, new.groups)
        return replace(
            step,
            tenants=new.tenants + parts,
            workload_names=new.workload_names + parts,
            groups=new.groups + tuple(f"{prefix}{owner}" for owner in owners),
            server_names=new.server_names,
            server_labels=new.server_labels,
        )
