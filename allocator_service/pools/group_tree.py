"""The tree of a pool's groups, which has no cycle and at most eight levels."""

from collections.abc import Collection, Iterable, Mapping

from allocator_service.core.errors import MAX_ERRORS, FieldError, Unacceptable

MAX_DEPTH = 8


def refuse_tree(parents: Mapping[str, str | None], pointers: Mapping[str, str]) -> None:
    """Raise `Unacceptable` unless the parents are a tree of at most 8 levels below the pool.

    `pointers` name the changed groups. One that pushes unchanged groups below it too deep is the
    mistake, not they.
    """
    refuse(
        FieldError(pointer, "group.unknown", f'The pool has no group "{parents[slug]}".')
        for slug, pointer in pointers.items()
        if parents[slug] is not None and parents[slug] not in parents
    )
    level, changed_above = group_levels(parents, pointers)
    refuse(
        FieldError(pointer, "group.cycle", f'The parents of "{slug}" lead back to it.')
        for slug, pointer in pointers.items()
        if slug not in level
    )
    too_deep: dict[str, FieldError] = {}
    for slug, depth in level.items():
        changed = changed_above[slug]
        if depth > MAX_DEPTH and changed is not None:
            detail = (
                f'"{slug}" would be {depth} levels below the pool; at most {MAX_DEPTH} are allowed.'
            )
            error = FieldError(pointers[changed], "group.too_deep", detail)
            too_deep.setdefault(changed, error)
    refuse(too_deep.values())


def group_levels(
    parents: Mapping[str, str | None], changed: Collection[str]
) -> tuple[dict[str, int], dict[str, str | None]]:
    """Return the levels of groups below the pool, and the nearest changed group at or above each.

    Groups on or below a cycle are left out.
    """
    # Level by level from the pool: what is on or below a cycle is never reached.
    below: dict[str | None, list[str]] = {}
    for slug, parent in parents.items():
        below.setdefault(parent, []).append(slug)
    level: dict[str, int] = {}
    nearest: dict[str, str | None] = {}
    reached, depth = below.get(None, []), 1
    while reached:
        for slug in reached:
            level[slug] = depth
            parent = parents[slug]
            above = nearest[parent] if parent is not None else None
            nearest[slug] = slug if slug in changed else above
        reached = [child for slug in reached for child in below.get(slug, [])]
        depth += 1
    return level, nearest


def refuse(found: Iterable[FieldError]) -> None:
    """Raise `Unacceptable` with errors, if there are any."""
    errors = list(found)[:MAX_ERRORS]
    if errors:
        raise Unacceptable(errors[0].detail, code=errors[0].code, errors=errors)
