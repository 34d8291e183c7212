"""The tree of a run, with shares and levels of its groups."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from allocator_service.allocation.models import Run
from allocator_service.allocation.selectors import input_of
from allocator_service.allocation.trees import (
    GROUP,
    MEMBER,
    NodeAmount,
    Tree,
    TreeNode,
    renamed,
    run_tree,
)
from allocator_service.pools.limits import MAX_LIMITS
from allocator_service.tenants.models import Tenant
from api.auth import EVERY_SCOPE
from api.contract import documents
from api.contract.operations import lists
from api.contract.pagination import page_of_fixed
from api.contract.parameters import PageParameters
from api.pseudonyms import group_name, tenant_name
from api.v1.members import tier_field
from api.v1.reports.documents import RatiosField
from api.v1.run_documents import MAX_ROWS
from api.v1.run_inputs import LabelVeil, sees_whole
from api.v1.runs import OneRunView


class NodeLimitDocument(documents.Document):
    where = documents.SelectorField(description="Servers that it is for; {}: all servers.")
    amount = documents.PoolQuantitiesField()
    has = documents.PoolQuantitiesField(
        allow_null=True, description="Allocated below the node on these servers."
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
        description="Share over the weight, which siblings are compared by. Long-term policies count"
        " past use.",
    )
    members = documents.IntegerField(
        minimum=0, maximum=MAX_ROWS, allow_null=True, description="Members at or below the node."
    )
    has = documents.PoolQuantitiesField(allow_null=True)
    wants = RatiosField(
        allow_null=True,
        description="Demand of all tasks of active workloads; null for a resource without a limit.",
    )
    limit = documents.ListField(
        NodeLimitDocument,
        min_items=0,
        max_items=MAX_LIMITS,
        description="Limits of the node that were in force.",
    )


_LAST = ("has", "wants", "limit")


class TreeView(OneRunView):
    scopes: ClassVar = {"GET": EVERY_SCOPE}
    parameters = PageParameters

    @lists(TreeNodeDocument, "List the tree of groups and members", problems=(409, 410))
    def get(self, request: Request, run: str) -> Response:
        """List the groups and members that a run decided for, each directly before those below it.

        A tenant key sees its own member and the names, weights, tiers and limits of the groups above
        it; their other numbers are null. In a transparent pool it sees the whole tree, the others under
        pseudonyms. A run that did not succeed answers 409 `run.not_succeeded`; once its retention
        is over, the answer is 410 `run.pruned`.
        """
        found = self.run(run)
        tree = tree_for(found, caller=self.tenant)
        page = page_of_fixed(f"tree:{found.pk}", tree.nodes, **self.query)
        names = [resource.name for resource in tree.resources]
        amounts = [f"{field}.{name}" for field in ("has", "wants") for name in names]
        columns = [name for name in TreeNodeDocument.fields if name not in _LAST]
        return self.listing(
            page, lambda node: _document(node, names), [*columns, *amounts, "limit"]
        )


def tree_for(run: Run, *, caller: Tenant | None) -> Tree:
    """Return the tree as the caller may see it.

    Raises `Conflict` for a run without a decision, `Gone` once its input is pruned.
    """
    whole = sees_whole(run.pool, caller)
    tree = run_tree(run, levels=whole)
    if caller is None:
        return tree
    path = tree.path_to(MEMBER, caller.slug)
    if not whole:
        return Tree(tree.resources, [_veiled(node) for node in path])
    known = {node.name for node in path if node.kind == GROUP}
    labels = LabelVeil(input_of(run), pool=run.pool, caller=caller)
    nodes = [
        replace(
            node,
            limit=_relabelled(node.limit, labels),
            guarantee=_relabelled(node.guarantee, labels),
            lend=_relabelled(node.lend, labels),
        )
        for node in tree.nodes
    ]
    return renamed(
        Tree(tree.resources, nodes),
        group=lambda slug: group_name(slug, pool=run.pool, known=known),
        member=lambda slug: tenant_name(slug, pool=run.pool, caller=caller),
    )


def _veiled(node: TreeNode) -> TreeNode:
    """A node on a tenant's path in a pool that is not transparent."""
    if node.kind == MEMBER:
        return node
    return replace(
        node,
        part=None,
        level=None,
        members=None,
        has=None,
        wants=None,
        limit=[each.veiled for each in node.limit],
        guarantee=[each.veiled for each in node.guarantee],
    )


def _relabelled(limits: Sequence[NodeAmount], labels: LabelVeil) -> list[NodeAmount]:
    return [replace(each, where=labels.selector(each.where)) for each in limits]


def _document(node: TreeNode, names: list[str]) -> dict[str, Any]:
    document = {name: getattr(node, name) for name in TreeNodeDocument.fields}
    for field in ("has", "wants"):
        if document[field] is not None:
            document[field] = dict(zip(names, document[field], strict=True))
    document["limit"] = [
        {name: getattr(each, name) for name in NodeLimitDocument.fields} for each in node.limit
    ]
    return document
