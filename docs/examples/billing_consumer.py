"""Keeps a copy of the ledger and of every closed statement in SQLite. Standard library only.

    URL=http://localhost:8000 BILLING=alloc_... python billing_consumer.py billing.sqlite

Run it as often as you like, or with --follow for ever. It may be killed at any moment: what it read and
where it goes on are one transaction, so that it starts again with neither a gap nor a repetition.
"""

import argparse
import hashlib
import json
import os
import sqlite3
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Any

EXACT = Context(prec=1000)  # sums of amounts are exact: nothing is rounded on the way
TABLES = """
CREATE TABLE IF NOT EXISTS entries (
    sequence INTEGER NOT NULL, id TEXT PRIMARY KEY, pool TEXT NOT NULL, tenant TEXT NOT NULL,
    resource TEXT NOT NULL, kind TEXT NOT NULL, amount TEXT NOT NULL, document TEXT NOT NULL,
    UNIQUE (pool, sequence));  -- a pool that moved here keeps its numbers, which others may have
CREATE TABLE IF NOT EXISTS cursor (one INTEGER PRIMARY KEY CHECK (one = 1), after TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS statements (
    pool TEXT, month TEXT, tenant TEXT, billed TEXT NOT NULL, currency TEXT NOT NULL,
    document BLOB NOT NULL, PRIMARY KEY (pool, month, tenant));
CREATE TABLE IF NOT EXISTS months (
    pool TEXT, month TEXT, sha256 TEXT NOT NULL, PRIMARY KEY (pool, month));
"""


class Service:
    """The service's REST interface, with a billing key. Waits while it is away or busy."""

    def __init__(self, url: str, key: str) -> None:
        self._url, self._headers = url, {"Authorization": f"Bearer {key}"}

    def open(self, path: str) -> Any:
        """Return the answer to a GET, None for 404."""
        while True:
            try:
                request = urllib.request.Request(self._url + path, headers=self._headers)
                return urllib.request.urlopen(request, timeout=60)
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    return None
                if error.code not in (429, 500, 502, 503, 504):
                    raise SystemExit(f"{path}: {error.code} {error.read().decode()}") from error
                time.sleep(float(error.headers.get("Retry-After") or 1))
            except OSError:
                time.sleep(1)

    def get(self, path: str) -> Any:
        """Return a document, None for 404. An answer that breaks off is requested again."""
        while True:
            answer = self.open(path)
            if answer is None:
                return None
            try:
                return json.load(answer)
            except (OSError, ValueError):
                time.sleep(1)

    def rows(self, path: str) -> Iterator[Any]:
        """Every row of a list."""
        following: str | None = path
        while following:
            page = self.get(following)
            yield from page["results"]
            following = page["next"] and page["next"].removeprefix(self._url)


def pull_ledger(db: sqlite3.Connection, service: Service, limit: int) -> int:
    """Read the new entries page by page and return their number."""
    count = 0
    while True:
        saved = db.execute("SELECT after FROM cursor").fetchone()
        after = f"&after={saved[0]}" if saved else ""
        page = service.get(f"/api/v1/ledger-entries/?limit={limit}{after}")
        if not page["results"]:
            return count
        columns = ("sequence", "id", "pool", "tenant", "resource", "kind", "amount")
        entries = [
            (*(entry[name] for name in columns), json.dumps(entry)) for entry in page["results"]
        ]
        with db:  # one transaction: the entries, and where to go on
            db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", entries)
            db.execute("INSERT OR REPLACE INTO cursor VALUES (1, ?)", [page["next_cursor"]])
        count += len(entries)


def pull_statements(db: sqlite3.Connection, service: Service) -> int:
    """Store the statements of months that were closed since, once their entries are checked."""
    count = 0
    pools = {row["slug"] for row in service.rows("/api/v1/pools/?limit=1000")}
    pools |= {pool for (pool,) in db.execute("SELECT DISTINCT pool FROM entries")}  # retired ones
    for pool in sorted(pools):
        listed = defaultdict(list)
        for row in service.rows(f"/api/v1/pools/{pool}/statements/?state=closed&limit=1000"):
            listed[row["month"]].append(row)
        known = {
            month for (month,) in db.execute("SELECT month FROM months WHERE pool = ?", [pool])
        }
        for month in sorted(listed.keys() - known):
            manifest = service.get(f"/api/v1/pools/{pool}/months/{month}/manifest/")
            if manifest is None:  # it is written within minutes of the closing
                continue
            check_entries(service, manifest)
            statements = []
            for row in listed[month]:
                path = f"/api/v1/pools/{pool}/statements/{month}/{row['tenant']}/"
                content = service.open(path).read()
                billed = json.loads(content)["totals"]["billed"]
                if billed != row["billed"]:
                    raise SystemExit(f"{path}: {billed} here, {row['billed']} in the list")
                statements.append((pool, month, row["tenant"], billed, row["currency"], content))
            with db:  # one transaction: a month is there with all of its statements, or not at all
                db.executemany("INSERT INTO statements VALUES (?, ?, ?, ?, ?, ?)", statements)
                db.execute("INSERT INTO months VALUES (?, ?, ?)", [pool, month, manifest["sha256"]])
            count += len(statements)
    return count


def check_entries(service: Service, manifest: dict[str, Any]) -> None:
    """Read the entries that a month was made from, and come to the manifest's digest and sums."""
    digest = hashlib.sha256()
    sums: defaultdict[tuple[str, ...], Decimal] = defaultdict(Decimal)
    for line in service.open(manifest["entries"]):
        digest.update(line)
        entry = json.loads(line)
        key = (entry["tenant"], entry["resource"], entry["kind"])
        sums[key] = EXACT.add(sums[key], Decimal(entry["amount"]))
    stated = {
        (row["tenant"], row["resource"], row["kind"]): Decimal(row["amount"])
        for row in manifest["sums"]
    }
    if (digest.hexdigest(), dict(sums)) != (manifest["sha256"], stated):
        raise SystemExit(f"{manifest['pool']} {manifest['month']}: entries and manifest differ")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("file", help="the SQLite database")
    arguments.add_argument("--follow", action="store_true", help="go on until killed")
    arguments.add_argument("--limit", type=int, default=1000, help="entries in a page")
    given = arguments.parse_args()
    service = Service(os.environ["URL"].rstrip("/"), os.environ["BILLING"])
    db = sqlite3.connect(given.file)
    db.executescript(TABLES)
    while True:
        entries, statements = pull_ledger(db, service, given.limit), pull_statements(db, service)
        print(f"{entries} entries, {statements} statements", flush=True)
        if not given.follow:
            return
        if not entries:
            time.sleep(1)


if __name__ == "__main__":
    main()
