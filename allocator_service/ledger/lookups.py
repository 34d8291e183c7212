"""The SQL that finds an entry by its id and its start."""


def is_entry(entry: str, id_: str, start: str) -> str:
    """Return the condition that an entry has an id and a start."""
    return _is_found(entry, id_, f"{entry}.start = {start}")


def is_entry_of(entry: str, row: str) -> str:
    """Return the condition that an entry has the id and the start of a row, such as a seal."""
    # By a range of starts the planner estimates one entry per row.
    starts = f"{entry}.start >= {row}.start AND {entry}.start <= {row}.start"
    return _is_found(entry, f"{row}.entry_id", starts)


def entry_lookup(id_: str, start: str) -> str:
    """Return a relation of the entry with an id and a start, for joins that read it once per row."""
    # OFFSET 0 excludes joins that read the entries first: they may read all of them once per row.
    return "LATERAL (SELECT o.* FROM ledger_entry o WHERE {is_entry} OFFSET 0)".replace(
        "{is_entry}", is_entry("o", id_, start)
    )


def _is_found(entry: str, id_: str, starts: str) -> str:
    # The indexes by tenant and by pool have the start, too. Statistics that count the pages of a month
    # as empty make all indexes cost the same, and each lookup may then read the whole month by one of
    # those. A scan of an index cannot use an OR of two operators, which leaves the primary key, by the
    # id. The partition can still be chosen by the OR. No start is after infinity.
    return f"({entry}.id = {id_} AND ({starts} OR {entry}.start > 'infinity'))"
