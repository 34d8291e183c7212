"""What a migration does that processes of the release before, which work meanwhile, would feel."""

import re
from collections.abc import Iterable, Sequence

# What stands in SQL, and what is wrong with it while the release before works on the table.
_NEVER = {
    r"\bDROP TABLE\b": "drops a table that is still read",
    r"\bDROP COLUMN\b": "drops a column that is still read",
    r"\bRENAME\b": "renames what is still called by its old name",
    r"\bSET NOT NULL\b": "refuses rows that are still written, and reads the whole table under a lock",
    r"\bALTER COLUMN \S+ TYPE\b": "may rewrite the whole table under a lock",
    r"\bDROP DEFAULT\b": "takes away the default that rows are still written by",
    r"\bDROP CONSTRAINT\b": "takes away what the release before relies on",
    r"\bDROP INDEX\b": "takes away what the release before is fast by",
    r"^(?:UPDATE|DELETE|TRUNCATE|LOCK)\b": "holds the rows that it changes until it is committed",
    r"CANNOT BE WRITTEN AS SQL": "is Python: nobody can see what it does",
}
_ADDED_COLUMN = re.compile(r'ALTER TABLE "?(\w+)"? ADD COLUMN "?(\w+)"? (.*)', re.DOTALL)
_ADDED_CONSTRAINT = re.compile(r'ALTER TABLE "?(\w+)"? ADD CONSTRAINT "?(\w+)"?(.*)', re.DOTALL)
_INDEX = re.compile(r'CREATE (?:UNIQUE )?INDEX (CONCURRENTLY )?.*? ON "?(\w+)"?', re.DOTALL)
_TABLE = re.compile(r'CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?"?(\w+)"?')
_ON = re.compile(r'(?:ALTER TABLE|UPDATE|DELETE FROM|LOCK TABLE|TRUNCATE|ON) (?:ONLY )?"?(\w+)"?')


def tables_made(statements: Iterable[str]) -> set[str]:
    """The tables that statements create: nobody else uses them yet."""
    return {match[1] for statement in statements if (match := _TABLE.search(statement))}


def incompatible(statements: Sequence[str], new_tables: set[str]) -> list[str]:
    """What is wrong with each statement that is not additive, or locks a table in use for long."""
    return [
        f"{reason}: {' '.join(statement.split())[:160]}"
        for statement in statements
        if not (touched := set(_ON.findall(statement))) or not touched <= new_tables
        if (reason := _reason(statement, new_tables))
    ]


def _reason(statement: str, new_tables: set[str]) -> str | None:
    bare = "\n".join(line for line in statement.splitlines() if not line.startswith("--"))
    for pattern, reason in _NEVER.items():
        text = statement if "CANNOT" in pattern else bare.strip()
        if re.search(pattern, text, re.IGNORECASE):
            return reason
    if match := _ADDED_COLUMN.search(bare):
        column = match[3].upper()
        if "NOT NULL" in column and "DEFAULT" not in column and "GENERATED" not in column:
            return "refuses rows of writers that do not know the column"
        if "UNIQUE" in column or "PRIMARY KEY" in column:
            return "builds an index while writers wait"
    if (match := _ADDED_CONSTRAINT.search(bare)) and "NOT VALID" not in match[3].upper():
        return "reads the whole table under a lock, and refuses what the release before may write"
    if (match := _INDEX.search(bare)) and not match[1] and match[2] not in new_tables:
        return "builds an index while writers wait"
    return None
