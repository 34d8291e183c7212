"""Order of turns in a pool with groups, as of one hand-out.

The order among the children of every node is that of live decisions (``filling.group_turns`` and
``long_term.measures``). Levels of groups count what runs below them, or what the window holds, and not
only what those in line have.

Source: docs/policies/groups.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from policies.arrays import IntArray
from policies.compiled import compiled
from policies.filling.group_turns import (
    CURRENT,
    FIRST_BLOCK,
    PARENT,
    GroupTurns,
    fill_in,
    flat_turns,
    group_turns,
    next_in_groups,
    set_level,
)
from policies.long_term.measures import (
    HistoryTurns,
    history_turns,
    next_in_history,
    set_measures,
)
from policies.model.problem import Problem
from policies.simulation.choosing import BY_SHARE


class Trees(NamedTuple):
    """The tree of each stage. Flat pools have no nodes.

    Attributes:
        shares: turns by share; histories: turns by long-term measures.
        bottom_up: groups and the pool, every node after those below it.
        adds_up: whether the share of a group is the sum of its tenants' shares, whatever resources they
            use.
    """

    shares: tuple[GroupTurns, GroupTurns]
    histories: tuple[HistoryTurns, HistoryTurns]
    bottom_up: tuple[IntArray, IntArray]
    adds_up: bool


def trees_of(problem: Problem, *, adds_up: bool) -> Trees:
    """Return the trees of both stages, without tenants in line.

    Args:
        adds_up: as of :class:`Trees`.
    """
    nothing = np.zeros((problem.t, problem.m))
    if not problem.has_groups:
        none = np.zeros(0, dtype=np.int64)
        return Trees(
            (flat_turns(problem.m), flat_turns(problem.m)),
            (history_turns(None, nothing, nothing), history_turns(None, nothing, nothing)),
            (none, none),
            adds_up,
        )
    away = np.full(problem.t, np.inf)
    first, second = problem.tree(0), problem.tree(1)
    held = np.zeros((problem.t, 1)) if adds_up else nothing
    return Trees(
        (group_turns(first, away, held), group_turns(second, away, held)),
        (history_turns(first, nothing, nothing), history_turns(second, nothing, nothing)),
        (first.bottom_up, second.bottom_up),
        adds_up,
    )


@compiled
def plant_groups(
    order, stage, trees, who, count, degree, main, second, rate, share_of_total, used, alone,
    level, nothing, first, active, actives, running, share, gain, above,
):  # fmt: skip
    """Put ``count`` tenants in line.

    Args:
        who: (t,) the tenants; degree, main, second: (t,) keys by tenant.
        rate: (t, 2 m) use of all tenants now; used, alone: (t, m) resource × time in the window.
        level: (t,) scratch; nothing: (m,) zeros.
        first, active, actives, running, share, gain: what runs now, as of ``Tenants`` and ``Tally``.
        above: whether ``running`` leaves out what is guaranteed, so that ``rate`` does not count.
    """
    bottom_up = trees.bottom_up[stage]
    if order == BY_SHARE:
        turns = trees.shares[stage]
        for i in range(len(level)):
            level[i] = np.inf
            if trees.adds_up:
                together = 0.0
                for at in range(first[i], first[i] + actives[i]):
                    together += running[active[at]] * share[active[at]]
                turns.held[i, 0] = together
            elif above:
                for r in range(len(nothing)):
                    turns.held[i, r] = 0.0
                for at in range(first[i], first[i] + actives[i]):
                    tasks = running[active[at]]
                    for r in range(len(nothing)):
                        turns.held[i, r] += tasks * gain[active[at], r] * share_of_total[r]
            else:
                for r in range(len(nothing)):
                    turns.held[i, r] = rate[i, r] * share_of_total[r]
        for c in range(count):
            level[who[c]] = main[who[c]]
        _sum_up(turns.node, bottom_up, len(level), turns.held)
        # Cursors have moved on in the hand-out before.
        _rewind(turns.node)
        fill_in(turns, level, bottom_up)
    else:
        history = trees.histories[stage]
        for place in range(len(history.main)):
            history.degree[place] = history.main[place] = history.second[place] = np.inf
        for i in range(len(level)):
            for r in range(len(nothing)):
                history.used[i, r], history.alone[i, r] = used[i, r], alone[i, r]
        _sum_up(history.node, bottom_up, len(level), history.used)
        _sum_up(history.node, bottom_up, len(level), history.alone)
        _rewind(history.node)
        for c in range(count):
            i = who[c]
            set_measures(history, i, order, degree[i], main[i], second[i], nothing, share_of_total)


@compiled
def next_in_tree(order, stage, trees):
    """Return the tenant that goes next, of at least one in line."""
    if order == BY_SHARE:
        return next_in_groups(trees.shares[stage])
    return next_in_history(trees.histories[stage])


@compiled
def set_keys_in_tree(order, stage, trees, tenant, degree, main, second, gain, share_of_total):
    """Change the keys of a tenant in line, inf to take it out.

    Args:
        gain: (m,) shares of the pool, or resource × time, that the tenant has received; first its own
            share where shares add up.
    """
    if order == BY_SHARE:
        set_level(trees.shares[stage], tenant, main, gain)
    else:
        set_measures(
            trees.histories[stage], tenant, order, degree, main, second, gain, share_of_total
        )


@compiled
def _sum_up(node, bottom_up, leaves, values):
    """Write the sums of the leaves' values to all nodes above them."""
    for v in range(leaves, len(node)):
        for r in range(values.shape[1]):
            values[v, r] = 0.0
    for i in range(leaves):
        for r in range(values.shape[1]):
            values[node[i, PARENT], r] += values[i, r]
    for v in bottom_up:
        if node[v, PARENT] >= 0:
            for r in range(values.shape[1]):
                values[node[v, PARENT], r] += values[v, r]


@compiled
def _rewind(node):
    for v in range(len(node)):
        node[v, CURRENT] = node[v, FIRST_BLOCK]
