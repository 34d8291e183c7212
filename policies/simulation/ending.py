"""Binary heap of running tasks by their end, in compiled code."""

from __future__ import annotations

from policies.compiled import compiled


@compiled
def begin_running(ends, tasks, size, end, task):
    """Put a task that ends at ``end`` among the ``size`` running ones."""
    place = size
    while place > 0:
        above = (place - 1) // 2
        if ends[above] <= end:
            break
        ends[place], tasks[place] = ends[above], tasks[above]
        place = above
    ends[place], tasks[place] = end, task


@compiled
def finish_first(ends, tasks, size):
    """Remove the task that ends first from the ``size`` running ones and return it."""
    first, end, task = tasks[0], ends[size - 1], tasks[size - 1]
    size -= 1
    place = 0
    while 2 * place + 1 < size:
        below = 2 * place + 1
        if below + 1 < size and ends[below + 1] < ends[below]:
            below += 1
        if end <= ends[below]:
            break
        ends[place], tasks[place] = ends[below], tasks[below]
        place = below
    ends[place], tasks[place] = end, task
    return first
