"""Parts of the pool that weights in a tree of groups entitle to, and checks of what groups have.

Sources: docs/policies/groups.md; Bhattacharya et al., SoCC 2013, §3 (hierarchical share guarantee); Wang
et al., TPDS 2015, Proposition 4 (no part of the pool is guaranteed on servers that differ).
"""

from __future__ import annotations

import numpy as np

from policies.arrays import BoolArray, FloatArray, IntArray
from policies.model.allocation import Allocation
from policies.model.group_tree import GroupTree
from policies.model.policy import ShareDefinition
from policies.model.problem import Problem
from policies.model.reasons import unserved_reasons, wants_more
from policies.model.tolerance import SHARE_TOLERANCE
from policies.properties.shares import compared_shares, compared_units
from policies.properties.verdicts import Verdict, undecided


def entitled_parts(tree: GroupTree, counted: BoolArray) -> FloatArray:
    """Return the part (v,) of the pool that each node is entitled to by the weights on its path.

    Siblings of the least tier divide what their parent has; later tiers are entitled to nothing.

    Args:
        tree: of the pool; counted: (t,) tenants that are entitled to anything.
    """
    present = tree.any_below(counted)
    part = np.zeros(tree.nodes)
    part[tree.pool] = 1.0
    for node in tree.bottom_up[::-1].tolist():
        of = tree.children[tree.first_child[node] : tree.first_child[node + 1]]
        of = of[present[of]]
        if len(of):
            of = of[tree.tier[of] == tree.tier[of].min()]
            part[of] = part[node] * tree.weight[of] / float(tree.weight[of].sum())
    return part


def are_siblings(problem: Problem) -> BoolArray:
    """Return the pairs (t, t) of tenants of one group, or of the pool itself, and of one tier."""
    group, tier = problem.tenant_group, problem.tenant_tier
    same: BoolArray = (group[:, None] == group) & (tier[:, None] == tier)
    return same


def levels_of_tenants(problem: Problem) -> IntArray:
    """Return the number (t,) of nodes from each tenant to the pool, 1 in a flat pool."""
    return _levels_above(problem.tree(0))[: problem.t]


def entitlement(problem: Problem) -> FloatArray:
    """Return the divisor (t,) of shares that makes tenants comparable.

    It is the weight, or the part of a pool with groups.
    """
    if not problem.has_groups:
        return problem.effective_weight
    return entitled_parts(problem.tree(0), ~problem.second_stage)[: problem.t]


def group_share_guarantee(allocation: Allocation, first: BoolArray) -> Verdict:
    """Check that every group with tasks left has its part of the pool, by weights, of some resource.

    The part is a promise where tasks are divisible and the policy sees one pool. Whole tasks keep it up
    to one task on each level of the tree. On servers that differ it is none.

    Where tasks over those alone count, the part is one of the sum of the group's shares: a promise for
    divisible tasks on any servers, if no selector or limit constrains them.

    Args:
        allocation: what is judged; first: (t,) tenants of the first stage that have something to run.
    """
    problem = allocation.problem
    if not (problem.has_groups and (problem.tenant_group >= 0).any()):
        return undecided("the pool has no groups")
    if allocation.history is not None:
        return undecided("a long-term policy is fair over time, not in one step")
    tree = problem.tree(0)
    part = entitled_parts(tree, first)
    by_tasks = allocation.choice.share is ShareDefinition.ALONE
    used = np.zeros((problem.t, problem.m))
    np.add.at(used, problem.workload_tenant, allocation.tasks[:, None] * problem.demand_share)
    if by_tasks:
        used = compared_shares(allocation)[:, None]
    held = tree.sums(used).max(axis=1, initial=0.0)
    runs = unserved_reasons(problem, allocation.classes.allowed) == ""
    open_ = runs & wants_more(allocation.limited_by)
    wants = np.zeros(problem.t, dtype=np.bool_)
    wants[problem.workload_tenant[open_]] = True
    lacking = np.where(tree.any_below(wants & first), part - held, 0.0)
    lacking[tree.group_of_node < 0] = 0.0
    whole = allocation.mode == "indivisible"
    if whole:
        per_task = compared_units(problem, allocation.choice).per_task
        largest = float(per_task[runs].max(initial=0.0))
        lacking -= largest * _levels_above(tree)
    lacking[lacking <= SHARE_TOLERANCE * part] = 0.0
    if not lacking.any():
        return Verdict(True, reason="within one task on each level" if whole else None)
    node = int(lacking.argmax())
    name, size = problem.groups[tree.group_of_node[node]], float(lacking[node])
    if by_tasks:
        if whole or problem.has_selectors or problem.limits:
            return undecided(
                f"whole tasks, selectors and limits can take a part: group {name!r} has {size:.3g} less"
            )
        return Verdict(False, {"group": name, "size": size})
    if not allocation.choice.sees_one_pool:
        return undecided(
            f"servers that differ guarantee no part of the pool: group {name!r} has {size:.3g} less"
        )
    several = np.bincount(problem.workload_tenant[runs], minlength=problem.t) > 1
    if tree.any_below(several)[node]:
        return undecided("groups of tenants with several workloads are undecided")
    return Verdict(False, {"group": name, "size": size})


def _levels_above(tree: GroupTree) -> IntArray:
    """Return the number (v,) of nodes from each node to the pool, which has 0."""
    above = np.zeros(tree.nodes, dtype=np.int64)
    for node in tree.bottom_up[::-1].tolist():
        above[tree.children[tree.first_child[node] : tree.first_child[node + 1]]] = above[node] + 1
    return above
