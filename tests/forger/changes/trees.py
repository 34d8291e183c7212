"""Another tree under the same answer; rounds and tasks of another tree, or of a wrong walk."""

from dataclasses import replace

import numpy as np

from tests.forger.changes.base import change, one, rescaled, some
from tests.forger.changes.open_rounds import with_certificate
from tests.references.alone import shares_alone
from tests.references.groups import shares_after_rounds


def is_tree(case):
    problem = case.problem
    return bool((problem.tenant_group >= 0).any()) or len(set(problem.tenant_tier.tolist())) > 1


def retree(case, rng, name, values, other):
    """One entry of a column of the tree replaced by ``other`` of what it was."""
    if not is_tree(case) or not len(values):
        return None
    at = int(rng.integers(len(values)))
    return case.with_problem(**{name: one(values, at, other(at, values[at]))})


@change
def a_member_in_another_group(case, rng):
    groups = len(case.problem.groups)
    return retree(
        case, rng, "tenant_group", case.problem.tenant_group,
        lambda _, was: (was + 1 + rng.integers(1, groups + 1)) % (groups + 1) - 1 if groups else was,
    )  # fmt: skip


@change
def two_members_of_each_others_groups(case, rng):
    problem = case.problem
    pairs = [
        (a, b)
        for a in range(problem.t)
        for b in range(a)
        if problem.tenant_group[a] != problem.tenant_group[b]
    ]
    at = some(rng, np.arange(len(pairs)))
    if at is None:
        return None
    a, b = pairs[at]
    return case.with_problem(
        tenant_group=one(problem.tenant_group, [a, b], problem.tenant_group[[b, a]])
    )


@change
def a_weight_of_a_group_tripled(case, rng):
    weight = case.problem.group_weight
    return retree(case, rng, "group_weight", weight, lambda _, was: was * 3)


@change
def a_weight_of_a_group_a_little_more(case, rng):
    weight = case.problem.group_weight
    return retree(case, rng, "group_weight", weight, lambda _, was: was * (1 + 1e-6))


@change
def a_tier_of_a_group_higher(case, rng):
    return retree(case, rng, "group_tier", case.problem.group_tier, lambda _, was: was + 2)


@change
def a_tier_of_a_tenant_lower(case, rng):
    return retree(case, rng, "tenant_tier", case.problem.tenant_tier, lambda _, was: was - 2)


@change
def a_group_of_another_parent(case, rng):
    parent = case.problem.group_parent
    # Parents come before their groups, so that no cycle closes.
    return retree(case, rng, "group_parent", parent, lambda at, was: (was + 2) % (at + 1) - 1)


@change
def no_groups_at_all(case, rng):
    problem = case.problem
    if not is_tree(case):
        return None
    return case.with_problem(
        tenant_group=np.full(problem.t, -1), tenant_tier=np.zeros(problem.t, dtype=np.int64)
    )


def rounds_of(case):
    """(rounds, frozen in) of an answer with several rounds, or None."""
    certificate = case.answer.certificate
    if certificate is None or case.answer.schedule is not None or not certificate.rounds:
        return None
    return list(certificate.rounds), certificate.frozen_in


def reround(case, rng, turn):
    """One round put through a function, with the numbers that follow from it."""
    found = rounds_of(case)
    if found is None:
        return None
    rounds, frozen = found
    at = int(rng.integers(len(rounds)))
    rounds[at] = turn(rounds[at])
    return with_certificate(case, rounds, frozen)


@change
def a_level_and_its_bound_higher(case, rng):
    more = 1 + float(rng.choice([1e-7, 1e-3, 1.0]))
    return reround(
        case, rng, lambda item: replace(item, level=item.level * more, bound=item.bound * more)
    )


@change
def a_level_and_its_bound_lower(case, rng):
    less = 1 - float(rng.choice([1e-7, 1e-3, 0.5]))
    return reround(
        case, rng, lambda item: replace(item, level=item.level * less, bound=item.bound * less)
    )


@change
def a_level_lower_below_its_bound(case, rng):
    less = 1 - float(rng.choice([1e-7, 1e-4]))
    proven = bool(rng.integers(2))
    return reround(case, rng, lambda item: replace(item, level=item.level * less, proven=proven))


@change
def a_bound_higher(case, rng):
    more = 1 + float(rng.choice([1e-7, 1e-2]))
    return reround(case, rng, lambda item: replace(item, bound=item.bound * more))


@change
def a_bound_lower_than_its_level(case, rng):
    return reround(case, rng, lambda item: replace(item, bound=item.bound * (1 - 1e-7)))


@change
def a_round_proven_or_not(case, rng):
    return reround(case, rng, lambda item: replace(item, proven=not item.proven))


def two_rounds(case, rng, turn):
    """Two rounds put through a function of both."""
    found = rounds_of(case)
    if found is None or len(found[0]) < 2:
        return None
    rounds, frozen = found
    a, b = sorted(rng.choice(len(rounds), 2, replace=False).tolist())
    rounds[a], rounds[b] = turn(rounds[a], rounds[b])
    return with_certificate(case, rounds, frozen)


@change
def levels_of_two_rounds_swapped(case, rng):
    return two_rounds(
        case, rng,
        lambda a, b: (
            replace(a, level=b.level, bound=b.bound), replace(b, level=a.level, bound=a.bound)
        ),
    )  # fmt: skip


@change
def prices_of_two_rounds_swapped(case, rng):
    return two_rounds(
        case, rng, lambda a, b: (replace(a, prices=b.prices), replace(b, prices=a.prices))
    )


@change
def prices_of_another_round(case, rng):
    return two_rounds(case, rng, lambda a, b: (replace(a, prices=b.prices), b))


def refrozen(case, rng, by):
    """One tenant frozen in the round after its own, or before; rounds without tenants go."""
    found = rounds_of(case)
    if found is None or len(found[0]) < 2:
        return None
    rounds, frozen = found
    may = [
        i
        for i, number in enumerate(frozen.tolist())
        if number >= 0
        and 0 <= number + by < len(rounds)
        and rounds[number + by].stage == rounds[number].stage
    ]
    i = some(rng, may)
    if i is None:
        return None
    return only_used(case, rounds, one(frozen, i, frozen[i] + by))


def only_used(case, rounds, frozen):
    used = [number for number in range(len(rounds)) if (frozen == number).any()]
    position = {number: at for at, number in enumerate(used)}
    numbers = np.array([position.get(int(number), -1) for number in frozen])
    return with_certificate(case, [rounds[number] for number in used], numbers)


@change
def a_tenant_frozen_a_round_later(case, rng):
    return refrozen(case, rng, 1)


@change
def a_tenant_frozen_a_round_earlier(case, rng):
    return refrozen(case, rng, -1)


@change
def two_rounds_merged(case, rng):
    found = rounds_of(case)
    if found is None or len(found[0]) < 2:
        return None
    rounds, frozen = found
    first = int(rng.integers(len(rounds) - 1))
    kept = first if rng.random() < 0.5 else first + 1
    other = 2 * first + 1 - kept
    return only_used(case, rounds, np.where(frozen == other, kept, frozen))


@change
def a_round_in_two(case, rng):
    """The first tenant of a round is frozen half-way, where it could still rise."""
    found = rounds_of(case)
    if found is None:
        return None
    rounds, frozen = found
    at = int(rng.integers(len(rounds)))
    mine = np.flatnonzero(frozen == at)
    if len(mine) < 2:
        return None
    begin = rounds[at - 1].level if at else 0.0
    half = (begin + rounds[at].level) / 2
    frozen = np.where(frozen >= at, frozen + 1, frozen)
    frozen[mine[0]] = at
    rounds.insert(at, replace(rounds[at], level=half, bound=half))
    return with_certificate(case, rounds, frozen)


@change
def stopped_a_round_too_early(case, rng):
    """All tenants of a round have what they had after the one before, and are frozen there."""
    found = rounds_of(case)
    if found is None or len(found[0]) < 2 or not is_tree(case):
        return None
    rounds, frozen = found
    if rounds[-1].stage != rounds[-2].stage:
        return None
    choice, each = case.answer.choice, None
    if choice.option("share") == "alone":
        each = shares_alone(case.problem, whole=False)
    shares = shares_after_rounds(
        case.problem, case.answer.certificate, pooled=choice.sees_one_pool, each=each
    )
    last = (frozen == len(rounds) - 1) & (shares[-1] > 0)
    part = np.divide(shares[-2], shares[-1], out=np.ones(case.problem.t), where=last)
    less = tenants_scaled(case, part)
    return only_used(less, rounds, np.where(frozen == len(rounds) - 1, len(rounds) - 2, frozen))


def tenants_scaled(case, factor):
    """Tasks of each tenant (t,) times a factor, with the levels that follow."""
    scaled = rescaled(case, factor[case.problem.workload_tenant])
    return scaled.with_answer(level=case.answer.level * factor)


def moved(case, rng, part, siblings):
    """A part of one tenant's share goes to another one of its group, or of another group."""
    problem, answer = case.problem, case.answer
    if not is_tree(case) or answer.certificate is None:
        return None
    share = answer.tenant_share
    group = problem.tenant_group
    pairs = [
        (a, b)
        for a in range(problem.t)
        for b in range(problem.t)
        if a != b and share[a] > 0 and share[b] > 0 and (group[a] == group[b]) == siblings
    ]
    at = some(rng, np.arange(len(pairs)))
    if at is None:
        return None
    a, b = pairs[at]
    factor = np.ones(problem.t)
    factor[a], factor[b] = 1 - part, 1 + part * share[a] / share[b]
    return tenants_scaled(case, factor)


@change
def a_share_moved_between_siblings(case, rng):
    return moved(case, rng, float(rng.choice([1e-7, 1e-3, 0.3])), siblings=True)


@change
def a_share_moved_between_groups(case, rng):
    return moved(case, rng, float(rng.choice([1e-7, 1e-3, 0.3])), siblings=False)


def task_moved(case, rng, siblings):
    """One whole task of a tenant goes to another tenant's workload that is alike, where it ran."""
    problem, answer = case.problem, case.answer
    if not is_tree(case) or answer.certificate is not None:
        return None
    owner = problem.workload_tenant
    group = problem.tenant_group[owner]
    pairs = [
        (a, b)
        for a in range(problem.n)
        for b in range(problem.n)
        if owner[a] != owner[b]
        and answer.tasks[a] >= 1
        and answer.tasks[b] < problem.tasks[b]
        and (problem.demand[a] == problem.demand[b]).all()
        and problem.selectors[a] == problem.selectors[b]
        and (group[a] == group[b]) == siblings
    ]
    at = some(rng, np.arange(len(pairs)))
    if at is None:
        return None
    a, b = pairs[at]
    tasks = one(answer.tasks, [a, b], answer.tasks[[a, b]] + [-1, 1])
    where = np.flatnonzero(answer.placement_workload == a)
    if not len(where):
        return case.with_answer(tasks=tasks)
    # All servers of a class run the same in this table: a task of each of them moves.
    row = where[0]
    count = answer.placement_tasks[row]
    each = float(answer.classes.servers[answer.placement_class[row]])
    beside = np.flatnonzero(
        (answer.placement_workload == b) & (answer.placement_class == answer.placement_class[row])
    )
    if each != 1 or not len(beside):
        return None
    on = one(
        answer.placement_tasks, [row, beside[0]], [count - 1, answer.placement_tasks[beside[0]] + 1]
    )
    kept = on > 0
    return case.with_answer(
        tasks=tasks,
        placement_piece=answer.placement_workload[kept],
        placement_class=answer.placement_class[kept],
        placement_tasks=on[kept],
    )


@change
def a_task_moved_between_siblings(case, rng):
    return task_moved(case, rng, siblings=True)


@change
def a_task_moved_between_groups(case, rng):
    return task_moved(case, rng, siblings=False)
