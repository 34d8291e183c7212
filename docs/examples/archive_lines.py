"""Write the export's lines of an archived month of the ledger, and compare their digest.

python archive_lines.py ledger-2026-01-0123456789ab.parquet > january.ndjson
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

# Columns that only the database knows are in no line.
KEYS = ("block", "pool_id", "tenant_id", "server_owner_id")


def value(of: Any) -> Any:
    """Return a value as the export writes it."""
    if isinstance(of, datetime):
        digits = "%Y-%m-%dT%H:%M:%S.%fZ" if of.microsecond else "%Y-%m-%dT%H:%M:%SZ"
        return of.strftime(digits)
    if isinstance(of, Decimal):
        text = f"{of:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return of


def lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, each with its line feed."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches():
            for row in batch.to_pylist():
                members = {name: value(of) for name, of in row.items() if name not in KEYS}
                yield json.dumps(members, separators=(",", ":"), ensure_ascii=False) + "\n"


def main(path: Path) -> int:
    stated = json.loads(pq.read_schema(path).metadata[b"allocator.ledger"])["lines_sha256"]
    digest = hashlib.sha256()
    for line in lines(path):
        digest.update(line.encode())
        sys.stdout.buffer.write(line.encode())
    if digest.hexdigest() != stated:
        print(f"{path} has other lines than its metadata states", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
