"""Statements that a slow look at an answer alone refutes: numbers, preference, order, open rounds."""

import itertools
import math

import numpy as np

# Of the bound of a round of time division that is left open.
WIDEST = 0.5


def no_numbers(answer):
    """Infinite numbers, or fractions where a whole number belongs."""
    numbers = [answer.objective, answer.bound, answer.gap, *answer.level.tolist()]
    certificate, schedule = answer.certificate, answer.schedule
    if certificate is not None:
        numbers += [x for item in certificate.rounds for x in (item.level, item.bound)]
        whole = [*certificate.frozen_in.tolist(), *(item.stage for item in certificate.rounds)]
        if not all(isinstance(x, int) for x in whole):
            return "rounds that are no whole numbers"
        if set(range(len(certificate.rounds))) - set(certificate.frozen_in.tolist()):
            return "a round in which nobody is frozen"
    if any(math.isinf(x) for x in numbers):
        return "an infinite number"
    if schedule is not None and (schedule.tasks != np.floor(schedule.tasks)).any():
        return "parts of tasks in a slot"
    return ""


def not_preferred(truth, answer):
    """Tasks of a workload while one that is alike, of the same tenant and preferred, has some left."""
    problem = truth.problem
    if answer.certificate is None:
        return ""
    tables = [answer.tasks] if answer.schedule is None else list(answer.schedule.tasks)
    for a, b in itertools.permutations(range(problem.n), 2):
        first = (-problem.priority[a], a) < (-problem.priority[b], b)
        if (
            not first
            or problem.workload_tenant[a] != problem.workload_tenant[b]
            or problem.selectors[a] != problem.selectors[b]
            or (problem.demand[a] != problem.demand[b]).any()
            or problem.out_of_range[a]
        ):
            continue
        for tasks in tables:
            if tasks[b] > 1e-6 and tasks[a] < problem.tasks[a] * (1 - 1e-6):
                return f"workload {b} runs, and {a} would rather"
    return ""


def other_order(truth, answer):
    """More tasks moved than another order of the slots moves, unless it is left open."""
    schedule = answer.schedule
    if schedule is None or not schedule.order_proven or len(schedule.fraction) > 7:
        return ""
    slots = [row.astype(float) for row in schedule.tasks]
    if schedule.placements is not None:
        servers = int(truth.problem.server_count.sum())
        slots = []
        for item in schedule.placements:
            table = np.zeros((servers, truth.problem.n))
            np.add.at(table, (item.server, item.workload), item.tasks)
            slots.append(table)

    def moved(order):
        return sum(
            np.abs(slots[a] - slots[b]).sum() for a, b in zip(order, np.roll(order, 1), strict=True)
        )

    rest = range(1, len(slots))
    least = min(moved([0, *tail]) for tail in itertools.permutations(rest))
    return "slots that move more tasks" if moved(list(range(len(slots)))) > least else ""


def too_open(truth, answer):
    """A tenant that wants more, with less than a half of what is proven of its round's least."""
    certificate, problem = answer.certificate, truth.problem
    if answer.schedule is None:
        return ""
    for number, item in enumerate(certificate.rounds):
        if not item.proven and item.level < (1 - WIDEST) * item.bound * (1 - 1e-6) - 1e-9:
            mine = certificate.frozen_in == number
            wants = [
                mine[owner] and reason.startswith("resource:")
                for owner, reason in zip(problem.workload_tenant, answer.limited_by, strict=True)
            ]
            if any(wants):
                return f"round {number} is open by more than a half"
    return ""
