"""Make the digests of a pool's chain again, from what the API exports, and compare.

python recompute_chain.py entries.ndjson blocks.ndjson [proof.json ...]
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


def text(value: object, sort: bool = False) -> str:
    return json.dumps(value, sort_keys=sort, separators=(",", ":"), ensure_ascii=False)


def digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def recompute(
    entries: Iterable[str], blocks: Iterable[str], proofs: Iterable[Any]
) -> Iterator[str]:
    """Yield each mistake. `entries` and `blocks` are lines, `proofs` documents."""
    parts = ("input", "answer")
    proven = {
        each["run"]: {part: digest(text(each[part], sort=True)) for part in parts}
        for each in proofs
    }
    following = iter(entries)
    entry = next(following, None)
    number, previous, lacking = 0, None, 0
    for block in map(json.loads, blocks):
        if block["number"] != number + 1:
            yield f"block {number + 1} is missing"
        number = block["number"]
        counts = {"entries": block["entries"], "decisions": len(block["decisions"])}
        if block["digests"]:
            counts["digests"] = len(block["digests"])
        head = {"pool": block["pool"], "block": number, "format": block["format"], **counts}
        lines = [text({**head, "previous": previous})]
        found = 0
        while entry is not None and json.loads(entry)["sequence"] <= (block["last_sequence"] or 0):
            lines.append(entry[: entry.rindex(',"digest":')] + "}")
            entry, found = next(following, None), found + 1
        lines += [text(line) for line in (*block["decisions"], *block["digests"])]
        if found < block["entries"] and entry is None:
            # The export ends here, so that every later block lacks all of its entries.
            if not lacking:
                yield (
                    f"block {number} has {block['entries']} entries and the export only {found} of"
                    " them: they were removed, or the entries were exported before the blocks"
                )
            lacking += 1
        elif block["format"] > 1 and digest("\n".join(lines)) != block["digest"]:
            yield f"block {number} has another digest"
        for decision in block["decisions"]:
            for part, of_proof in proven.pop(decision["run"], {}).items():
                if decision[part] != of_proof:
                    yield f"the {part} of run {decision['run']} is not what was sealed"
        previous = block["digest"]
    if lacking > 1:
        yield f"later blocks whose entries the export lacks, too: {lacking - 1}"
    yield from (f"run {run} is in no block" for run in proven)


def count_newer(entries: Iterable[str], blocks: Iterable[str]) -> int:
    """Count the entries after the last block, which were sealed while the files were fetched."""
    last = max((block["last_sequence"] or 0 for block in map(json.loads, blocks)), default=0)
    return sum(json.loads(entry)["sequence"] > last for entry in entries)


def read(name: str, member: str) -> str:
    """Return a file whose first document has a member, or end with a sentence why it is none."""
    content = Path(name).read_text("utf-8")
    # A pool without entries has an empty export, which is right for blocks without entries.
    if not content.strip():
        return ""
    try:
        first = json.JSONDecoder().raw_decode(content.lstrip())[0]
    except ValueError:
        sys.exit(f"{name} is not an export: it does not begin with a JSON document")
    # What curl stores without --fail if the service refuses: a problem document with its reason.
    if not isinstance(first, dict) or member not in first:
        error = first if isinstance(first, dict) else {}
        why = error.get("detail") or error.get("title") or f"its first line has no `{member}`"
        sys.exit(f"{name} is not an export: {why}")
    return content


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    exported = read(sys.argv[1], "sequence")
    listed = read(sys.argv[2], "last_sequence")
    proof_files = [json.loads(read(name, "run")) for name in sys.argv[3:]]
    faults = list(recompute(exported.splitlines(), listed.splitlines(), proof_files))
    if newer := count_newer(exported.splitlines(), listed.splitlines()):
        print(f"{newer} entries are newer than the last block: its successors seal them")
    print("\n".join(faults) or "every block has the digest that its lines make")
    sys.exit(bool(faults))
