"""Fields of the jobs in `squeue --json`, of which newer versions of Slurm wrap numbers in objects."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from allocator_service.core.errors import Unacceptable

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", re.ASCII)
_LONGEST_FIELD = 100_000
_LARGEST_NUMBER = 2**63


def name_of(item: Any) -> str:
    """Return a name for messages, such as "job 17"."""
    number = item.get("job_id") if isinstance(item, dict) else None
    if isinstance(number, dict):
        number = number.get("number")
    return f"job {number}"[:80] if type(number) is int else "job"


def whole_of(item: Any) -> str:
    """Return the number of the heterogeneous job that a job is part of, an empty text for none."""
    try:
        number = number_at(item, "het_job_id") if isinstance(item, dict) else 0
    except Unacceptable:
        return ""
    return str(number) if number else ""


def number_at(item: Mapping[str, Any], field: str) -> int:
    """Return a whole number, also from the object that wraps it in newer versions, and 0 for none."""
    value = item.get(field)
    if isinstance(value, dict):
        is_set = value.get("set", True) and not value.get("infinite", False)
        value = value.get("number") if is_set else 0
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value < _LARGEST_NUMBER:
        raise Unacceptable(
            f"Expected a whole number of at least 0, got {str(value)[:40]}.",
            code="field.type",
            pointer=f"/{field}",
        )
    return value


def text_at(item: Mapping[str, Any], field: str) -> str:
    """Return a text, empty for none. Raises `Unacceptable` for other kinds and for a very long one."""
    value = item.get(field)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > _LONGEST_FIELD:
        raise Unacceptable(
            f"Expected text of at most {_LONGEST_FIELD:,} characters.",
            code="field.type",
            pointer=f"/{field}",
        )
    return value


def words_in(value: Any, pointer: str) -> list[str]:
    """Return the words of a text with commas, or of a list of texts."""
    words = value.split(",") if isinstance(value, str) else [] if value is None else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise Unacceptable(
            "Expected text or an array of texts.", code="import.shape", pointer=pointer
        )
    return words


def time_of(document: Mapping[str, Any], items: Sequence[Any]) -> int:
    """Return the time of the file, the latest one that it states to have passed."""
    # Older versions of Slurm state none. An import must not depend on when it is repeated.
    times = [0]
    for each in [document, *items]:
        if not isinstance(each, dict):
            continue
        names = ["last_update", "submit_time", "last_sched_evaluation"]
        for name in names:
            try:
                times.append(number_at(each, name))
            except Unacceptable:
                continue  # it is no field of a job's row
    return max(times)


def array_tasks(item: Mapping[str, Any]) -> int:
    """Return the number of tasks in a list such as `1-199:3,210%5`, 1 for a job that is no array."""
    text = text_at(item, "array_task_string")
    count = 0
    for part in text.partition("%")[0].split(",") if text else []:
        match = _RANGE.fullmatch(part)
        if match is None:
            raise Unacceptable(
                f'Expected array tasks such as 1-9:2, got "{part[:40]}". Slurm cuts long lists unless'
                " SLURM_BITSTR_LEN=0 is set for squeue.",
                code="import.shape",
                pointer="/array_task_string",
            )
        first, last, step = (int(number or 0) for number in match.groups())
        if match[2] and (last < first or not (match[3] is None or step)):
            raise Unacceptable(
                f'Expected array tasks such as 1-9:2, got "{part[:40]}".',
                code="import.shape",
                pointer="/array_task_string",
            )
        count += (last - first) // (step or 1) + 1 if match[2] else 1
    return count or 1
