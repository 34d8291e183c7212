"""Changes as plans show them, without their indentation."""

from allocator_agent.changes import plan_lines


def shown(*changes):
    """Return the lines of changes."""
    return [line.strip() for change in changes for line in change.shown().lines()]


def shown_plan(plan):
    """Return the lines of a plan, sorted by object."""
    return [line.strip() for line in plan_lines("plan", plan.shown())[1:]]
