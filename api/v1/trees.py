"""The tree of a run, with shares and levels of its groups."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.models import Run
from allocator_service.allocation.reasons import reason_renamed
from allocator_service.allocation.selectors import input_of
from allocator_service.allocation.trees import (
    GROUP,
    MEMBER,
    Fulfilment,
    NodeAmount,
    NodeGuarantee,
    NodeLimit,
    Tree,
    TreeNode,
    renamed,
    run_tree,
)
from allocator_service.core.display import twelve_digits
from allocator_service.pools.budgets import opening_of
from allocator_service.pools.limits import MAX_LIMITS
from allocator_service.tenants.models import Tenant
from api.auth import EVERY_SCOPE_AND_GROUP
from api.contract import documents
from api.contract.operations import lists
from api.contract.pagination import page_of_fixed
from api.contract.parameters import PageParameters
from api.pseudonyms import group_name, tenant_name
from api.subtrees import Subtree
from api.v1.members import tier_field
from api.v1.reports.documents import RatiosField
from api.v1.run_documents import MAX_ROWS
from api.v1.run_inputs import LabelVeil, sees_whole
from api.v1.runs import OneRunView

Amount = TypeVar("Amount", NodeAmount, NodeLimit, NodeGuarantee)


class NodeAmountDocument(documents.Document):
    where = documents.SelectorField(description="Servers that it is for; {}: all servers.")
    amount = documents.PoolQuantitiesField()
    has = documents.PoolQuantitiesField(
        allow_null=True, description="Allocated below the node on these servers."
    )


class StoppingBudgetDocument(documents.Document):
    budget = documents.IdField()
    resource = documents.TextField(max_length=63)
    amount = documents.DecimalField(description="Hours of the period with what was carried over.")
    spent = documents.DecimalField(
        allow_null=True,
        description="Hours that were spent when the decision was computed; null for a group above a"
        " tenant, and in decisions of earlier releases.",
    )
    opens_at = documents.TimestampField(description="End of the budget's period.")


class NodeLimitDocument(NodeAmountDocument):
    budget = documents.DocumentField(
        StoppingBudgetDocument,
        allow_null=True,
        description="Exhausted budget whose limit of 0 it is; null for a limit that is set, and for"
        " nodes beside the path of a tenant.",
    )


def _met_field() -> documents.NumberField:
    return documents.NumberField(
        allow_null=True, description="Least fraction of a floor that runs, from 0 to 1."
    )


def _reasons_field() -> documents.ListField:
    return documents.ListField(
        documents.LimitedByField(),
        min_items=0,
        allow_null=True,
        description="What stopped the floors that are not met.",
    )


class FulfilmentDocument(documents.Document):
    met = _met_field()
    limited_by = _reasons_field()


class NodeGuaranteeDocument(NodeAmountDocument):
    met = _met_field()
    limited_by = _reasons_field()


class NodeLoanDocument(documents.Document):
    where = documents.SelectorField(description="Servers that it is for; {}: all of the member's.")
    amount = documents.PoolQuantitiesField()
    has = documents.PoolQuantitiesField(
        allow_null=True, description="Allocated to all others on these servers."
    )


class TreeNodeDocument(documents.Document):
    kind = documents.ChoiceField(choices=[GROUP, MEMBER])
    name = documents.TextField(
        max_length=63, description="Slug of the group, or of the member's tenant."
    )
    parent = documents.TextField(
        max_length=63, allow_null=True, description="Group directly above; null is the pool itself."
    )
    depth = documents.IntegerField(
        minimum=0, maximum=8, description="Number of groups above the node."
    )
    weight = documents.NumberField()
    tier = tier_field()
    best_effort = documents.BooleanField()
    part = documents.NumberField(
        allow_null=True,
        description="Fraction of the pool by the weights from the pool to the node.",
    )
    level = documents.NumberField(
        allow_null=True,
        description="Share divided by the weight, by which siblings are compared. Under long-term"
        " policies past use counts.",
    )
    members = documents.IntegerField(
        minimum=0, maximum=MAX_ROWS, allow_null=True, description="Members at or below the node."
    )
    has = documents.PoolQuantitiesField(allow_null=True)
    wants = RatiosField(
        allow_null=True,
        description="Demand of all tasks of active workloads; null for an unlimited number of tasks.",
    )
    guaranteed = documents.PoolQuantitiesField(
        allow_null=True, description="Sum of the floors of the workloads at or below the node."
    )
    limit = documents.ListField(
        NodeLimitDocument,
        min_items=0,
        max_items=MAX_LIMITS,
        description="Limits of the node that were in force.",
    )
    guarantee = documents.ListField(
        NodeGuaranteeDocument,
        min_items=0,
        max_items=MAX_LIMITS,
        description="Guarantees of the node that were in force.",
    )
    lend = documents.ListField(
        NodeLoanDocument,
        min_items=0,
        max_items=MAX_LIMITS,
        description="Greatest amounts that all others may have on the servers of the member.",
    )
    own_servers = documents.DocumentField(
        FulfilmentDocument,
        allow_null=True,
        description="Fulfilment of the guarantee of own servers; null for groups, and for members"
        " without it.",
    )


_BY_RESOURCE = ("has", "wants", "guaranteed")
_AMOUNTS = ("limit", "guarantee", "lend")
_OWN_SERVERS = ("own_servers.met", "own_servers.limited_by")


class TreeView(OneRunView):
    scopes: ClassVar = {"GET": EVERY_SCOPE_AND_GROUP}
    parameters = PageParameters

    @lists(TreeNodeDocument, "List the tree of groups and members", problems=(409, 410))
    def get(self, request: Request, run: str) -> Response:
        """List the groups and members that a run decided for, each directly before those below it.

        A tenant key sees its own member and the names, weights, tiers, limits and guarantees of the
        groups above it; their other numbers are null. In a transparent pool it sees the whole tree,
        the others under pseudonyms. A group key sees its group and what was below it when the run
        began, with `depth` counted from its group, whose `parent` is null. A run that did not succeed
        answers 409 `run.not_succeeded`; once its retention is over, the answer is 410 `run.pruned`.
        Numbers have twelve digits.
        """
        found = self.run(run)
        subtree = self.subtree(found)
        tree = (
            tree_for(found, caller=self.tenant)
            if subtree is None
            else tree_below(found, subtree=subtree)
        )
        # The tree of a run never changes, so that a position stays that of its node.
        page = page_of_fixed(f"tree:{found.pk}", tree.nodes, **self.query)
        names = [resource.name for resource in tree.resources]
        amounts = [f"{field}.{name}" for field in _BY_RESOURCE for name in names]
        last = {*_BY_RESOURCE, *_AMOUNTS, "own_servers"}
        columns = [name for name in TreeNodeDocument.fields if name not in last]
        return self.listing(
            page,
            lambda node: _document(node, names),
            [*columns, *amounts, *_AMOUNTS, *_OWN_SERVERS],
        )


def tree_for(run: Run, *, caller: Tenant | None) -> Tree:
    """Return the tree as the caller may see it.

    Raises `Conflict` for a run without a decision, `Gone` once its input is pruned.
    """
    whole = sees_whole(run.pool, caller)
    # Levels of groups need the stored decision: they are not computed to be hidden.
    tree = run_tree(run, levels=whole)
    tree = replace(tree, nodes=[_rounded(node) for node in tree.nodes])
    if caller is None:
        return tree
    path = tree.path_to(MEMBER, caller.slug)
    # By the tree of the run: a tenant that has moved since knew the groups that were above it then.
    known = {node.name for node in path if node.kind == GROUP}

    def group(slug: str) -> str:
        return group_name(slug, pool=run.pool, known=known)

    if not whole:
        return replace(tree, nodes=[_veiled(node, group) for node in path])
    labels = LabelVeil(input_of(run), pool=run.pool, caller=caller)
    own = {(node.kind, node.name) for node in path}
    nodes = [
        _renamed(node, labels, group, is_own=(node.kind, node.name) in own) for node in tree.nodes
    ]
    return renamed(
        replace(tree, nodes=nodes),
        group=group,
        member=lambda slug: tenant_name(slug, pool=run.pool, caller=caller),
    )


def tree_below(run: Run, *, subtree: Subtree) -> Tree:
    """Return the tree from the group of a caller down. It names nothing beside or above the group.

    Raises as `tree_for`.
    """
    tree, known = subtree.tree_of_run(run), subtree.groups_of_run(run)

    def group(slug: str) -> str:
        return group_name(slug, pool=run.pool, known=known)

    return replace(tree, nodes=[_with_reasons(_rounded(node), group) for node in tree.nodes])


def _veiled(node: TreeNode, group: Callable[[str], str]) -> TreeNode:
    """Return a node on a tenant's path in a pool that is not transparent."""
    # The tenant's own node: its numbers are the tenant's to know.
    if node.kind == MEMBER:
        return _with_reasons(node, group)
    return replace(
        node,
        part=None,
        level=None,
        members=None,
        has=None,
        wants=None,
        guaranteed=None,
        limit=[replace(each, has=None) for each in _without_spent(node).limit],
        guarantee=[replace(each, has=None, met=None, limited_by=None) for each in node.guarantee],
    )


def _without_spent(node: TreeNode) -> TreeNode:
    """Return a group above a tenant, which does not learn how much others spent of its budgets."""
    if node.kind == MEMBER:
        return node
    limits = [
        each if each.budget is None else replace(each, budget={**each.budget, "spent": None})
        for each in node.limit
    ]
    return replace(node, limit=limits)


def _rounded(node: TreeNode) -> TreeNode:
    """Return a node without the digits in which rounding depends on what others do."""

    def few(value: float | None) -> float | None:
        return None if value is None else float(twelve_digits(value))

    def all_few(values: Any) -> Any:
        return None if values is None else [few(each) for each in values]

    def amount(each: Any) -> Any:
        has = each.has and {name: few(value) for name, value in each.has.items()}
        met = {"met": few(each.met)} if isinstance(each, NodeGuarantee) else {}
        return replace(each, has=has, **met)

    return replace(
        node,
        level=few(node.level),
        has=all_few(node.has),
        guaranteed=all_few(node.guaranteed),
        limit=[amount(each) for each in node.limit],
        guarantee=[amount(each) for each in node.guarantee],
        lend=[amount(each) for each in node.lend],
    )


def _renamed(
    node: TreeNode, labels: LabelVeil, group: Callable[[str], str], *, is_own: bool
) -> TreeNode:
    """Return a node of a transparent pool with the names of labels and groups that a tenant knows.

    Budgets of nodes that are not the tenant's own or above it are hidden.
    """
    named = _with_reasons(_without_spent(node), group)
    if not is_own:
        named = replace(named, limit=[replace(each, budget=None) for each in named.limit])
    return replace(
        named,
        limit=_relabelled(named.limit, labels),
        guarantee=_relabelled(named.guarantee, labels),
        lend=_relabelled(named.lend, labels),
    )


def _with_reasons(node: TreeNode, group: Callable[[str], str]) -> TreeNode:
    """Return a node whose reasons name groups as a tenant knows them."""

    def reasons(found: Fulfilment) -> list[str]:
        return [reason_renamed(each, group) for each in found.limited_by or ()]

    own = node.own_servers
    return replace(
        node,
        guarantee=[replace(each, limited_by=reasons(each)) for each in node.guarantee],
        own_servers=None if own is None else replace(own, limited_by=reasons(own)),
    )


def _relabelled(amounts: Sequence[Amount], labels: LabelVeil) -> list[Amount]:
    return [replace(each, where=labels.selector(each.where)) for each in amounts]


def _document(node: TreeNode, names: list[str]) -> dict[str, Any]:
    document = {name: getattr(node, name) for name in TreeNodeDocument.fields}
    for field in _BY_RESOURCE:
        if document[field] is not None:
            document[field] = dict(zip(names, document[field], strict=True))
    for field in _AMOUNTS:
        document[field] = [vars(each) for each in document[field]]
    document["limit"] = [
        {**each, "budget": each["budget"] and _stopping(each["budget"])}
        for each in document["limit"]
    ]
    if node.own_servers is not None:
        document["own_servers"] = vars(node.own_servers)
    return document


def _stopping(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return an exhausted budget that a run stores."""
    return {
        "budget": stored["budget"],
        "resource": stored["resource"],
        "amount": stored["amount"],
        "spent": stored.get("spent"),
        "opens_at": opening_of(stored),
    }
