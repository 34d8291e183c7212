"""The command `alloc import`."""

from typing import TextIO

import click

from allocator_client._generated.documents.pools_and_members import (
    GroupImportRequest,
    ImportDocument,
)
from allocator_client.cli.failures import Failure
from allocator_client.cli.output import echo, print_json, table
from allocator_client.cli.session import Session, pool_names, with_session

_FORMATS = ("csv", "sacctmgr")


@click.group("import")
def import_() -> None:
    """Import data of another system into a pool, as an operator."""


@import_.command("groups")
@click.argument("file", type=click.File(encoding="utf-8-sig"))
@click.argument("pool", required=False, shell_complete=pool_names)
@click.option("--format", "form", type=click.Choice(_FORMATS), default="csv", show_default=True)
@click.option("--dry-run", is_flag=True, help="Report every row and write nothing.")
@click.option("--skip-refused", is_flag=True, help="Write the other rows if some are refused.")
@click.option("--register-tenants", is_flag=True, help="Register unknown tenants.")
@click.option(
    "--tenant-label",
    metavar="COLUMN",
    help="Of sacctmgr: the column that names members, Account (default) or User.",
)
@with_session()
def groups(
    session: Session,
    file: TextIO,
    pool: str | None,
    form: str,
    dry_run: bool,
    skip_refused: bool,
    register_tenants: bool,
    tenant_label: str | None,
) -> None:
    """Import groups of a pool and the members in them.

    FILE is CSV or the output of `sacctmgr --parsable2 show association tree`. `-` is standard input.
    A second import of the same file changes nothing. If a row is refused, no row is written.

    \b
    alloc import groups tree.txt lab --format sacctmgr --dry-run
    """
    body: GroupImportRequest = {
        "content": file.read(),
        "format": "sacctmgr" if form == "sacctmgr" else "csv",
        "dry_run": dry_run,
        "skip_refused": skip_refused,
        "register_tenants": register_tenants,
    }
    if tenant_label:
        body["tenant_label"] = tenant_label
    found = session.client.pools_imports_groups_create(session.pool(pool), body).body
    if session.for_people:
        _print_outcome(found)
    else:
        print_json(found)
    refused = found["counts"]["refused"]
    if refused:
        # Also after a dry run or with --skip-refused: a script must not take a part for the whole.
        raise Failure(f"{refused:,} row{'s' * (refused != 1)} refused.")


def _print_outcome(found: ImportDocument) -> None:
    """Print the counts, with every row of a dry run or otherwise the refused rows."""
    rows = [row for row in found["rows"] if found["dry_run"] or row["outcome"] == "refused"]
    if rows:
        table(
            (">LINE", "OUTCOME", "NAME", "DETAIL"),
            [
                (
                    str(row["line"] or "-"),
                    row["outcome"],
                    row["name"],
                    row["detail"] or "; ".join(each["detail"] for each in row["errors"]),
                )
                for row in rows
            ],
        )
        echo()
    counts = ", ".join(f"{count:,} {name}" for name, count in found["counts"].items() if count)
    if found["dry_run"]:
        echo(f"Nothing was written: {counts or 'no rows'}.")
    else:
        echo(f"Change {found['generation']}: {counts or 'no rows'}.")
    if found["registered"]:
        would = "to be registered" if found["dry_run"] else "registered"
        echo(f"Tenants {would}: {', '.join(found['registered'])}.")
