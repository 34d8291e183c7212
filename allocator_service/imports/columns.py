"""Columns of CSV files, and samples of such files."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from allocator_service.core.quantities import Resource

# Amounts of the resources of a sample, by their place in the pool; further ones have the last.
_CAPACITIES, _DEMANDS = (16, 64, 4), (2, 8, 1)


@dataclass(frozen=True)
class Column:
    """Column of a CSV file. A name that ends with a dot stands for a family of columns.

    `cells` are the texts of a sample's rows. In them `{tenant}` is the slug of a tenant.
    """

    name: str
    note: str
    cells: Sequence[str] = ()
    member: str = ""  # of a family in a sample; a family without one has a column for each resource
    amounts: Sequence[int] = field(default=())

    def names(self, resources: Sequence[Resource]) -> list[str]:
        """Return the names of the column, or of the family's columns, in a sample."""
        if not self.name.endswith("."):
            return [self.name]
        if self.member:
            return [f"{self.name}{self.member}"]
        return [f"{self.name}{resource.name}" for resource in resources]

    def title(self) -> str:
        """Return the name for people, such as `capacity.RESOURCE`."""
        if not self.name.endswith("."):
            return self.name
        return f"{self.name}{'KEY' if self.member else 'RESOURCE'}"


NODES = (
    Column("name", "Name of the server. Required.", ("sample-node", "sample-gpu")),
    Column(
        "contributed_by",
        "Slug of the tenant that contributes the server. Empty: as set above, otherwise the pool's own.",
        ("", "{tenant}"),
    ),
    Column("count", "Number of servers: name-0001, … for more than 1. Empty: 1.", ("3", "")),
    Column(
        "capacity.",
        "Capacity in the pool's resources, at least one column. A plain number is in the pool's unit;"
        " 500m, 512Mi and 512M are converted.",
        amounts=_CAPACITIES,
    ),
    Column("labels.", "Value of a label. Empty: no such label.", ("a", "b"), member="zone"),
)
WORKLOADS = (
    Column("tenant", "Slug of the tenant. Empty: as set above.", ("{tenant}", "{tenant}")),
    Column("name", "Name of the workload. Required.", ("sample-batch", "sample-service")),
    Column("tasks", "Number of tasks. Empty: no limit.", ("2", "4")),
    Column("priority", "Whole number, higher first. Empty: 0.", ("", "1")),
    Column(
        "demand.",
        "Demand of one task, or of one piece if a cell about pieces is set; at least one column.",
        amounts=_DEMANDS,
    ),
    Column(
        "selector.",
        "Value of a server's label, or several as a|b. Empty: any server.",
        ("", ""),
        member="zone",
    ),
    Column("pieces", "Number of pieces of a task, each with the demand of the row."),
    Column("second_pieces", "Number of pieces of a second kind."),
    Column("second_demand.", "Demand of one piece of the second kind."),
    Column("per_server", "Most pieces of a task on one server."),
    Column("together", "Label that all servers of a task share, such as rack."),
    Column("at_least", "Fewest tasks that start at once. Empty: 1."),
    Column(
        "minimum_run", "How long a placed task keeps its server, such as PT30M. Empty: as it is."
    ),
    Column(
        "group",
        "Slug of the group of a tenant that becomes a member. Empty: the pool, or as it is.",
    ),
)
TENANTS = (
    Column("slug", "Slug of the tenant. Required.", ("sample-physics", "sample-chemistry")),
    Column("name", "Name for people. Empty: the slug.", ("Physics (sample)", "")),
)
TREE = (
    Column("kind", "group or member. Empty: group.", ("", "", "member")),
    Column(
        "slug",
        "Slug of the group, or of the member's tenant. Required.",
        # No present member, whose place and weight the sample would change.
        ("sample-science", "sample-physics", "sample-tenant"),
    ),
    Column("name", "Name of a group. Empty: as it is, otherwise the slug.", ("Science", "", "")),
    Column(
        "parent",
        "Slug of the group above. Empty: as it is, otherwise the pool.",
        ("", "sample-science", "sample-physics"),
    ),
    Column("weight", "Number greater than 0. Empty: as it is, otherwise 1.", ("2", "", "1.5")),
    Column("tier", "Whole number. Empty: as it is, otherwise 0.", ("", "", "")),
    Column("limit", "Limits, such as gpu=8, one per line. none removes all. Empty: as they are."),
    Column("guarantee", "Guarantees, as limits."),
    Column("own_servers", "inherit, yes or no. Empty: as it is."),
    Column("lend", "Most that others get of a member's servers, as limits."),
)
FORMATS: Mapping[str, str] = {
    "csv": "UTF-8, commas, a header with the columns below in any order.",
    "json": "A JSON array of objects with the columns below as fields.",
    "kubernetes": "Output of kubectl get {objects} -o json.",
    "slurm": "Output of scontrol show node --json, or of sinfo --json; for workloads that of"
    " squeue --json in the same file.",
    "sacctmgr": "Output of sacctmgr --parsable2 show association tree.",
}


def column_names(columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the names that a reader of CSV files knows."""
    return tuple(column.name for column in columns)


def sample_csv(columns: Sequence[Column], resources: Sequence[Resource], tenant: str) -> str:
    """Return a CSV file with all columns that a sample fills in.

    `tenant` is the slug in its rows.
    """
    filled = [column for column in columns if column.cells or column.amounts]
    count = max(len(column.cells) for column in filled)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([name for column in filled for name in column.names(resources)])
    for row in range(count):
        writer.writerow(
            [
                column.cells[row].format(tenant=tenant)
                if column.cells
                else column.amounts[min(place, len(column.amounts) - 1)] * (row + 1)
                for column in filled
                for place in range(len(column.names(resources)))
            ]
        )
    return text.getvalue()
