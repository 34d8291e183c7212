"""Answers with one number changed by a visible amount; a verifier has to refuse each of them."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

CHANGES = (0.9, 0.99, 1.01, 1.1)
# Smaller numbers are changed by less than a verifier tells from rounding.
VISIBLE = 1e-3


@st.composite
def tampered(draw, answer):
    """(what was changed, the changed answer); None where the answer has no number to change."""
    places = [("tasks", j) for j in np.flatnonzero(answer.tasks > VISIBLE).tolist()]
    places += [("level", i) for i in np.flatnonzero(answer.level > VISIBLE).tolist()]
    places += [(name, 0) for name in ("objective", "bound") if getattr(answer, name) > VISIBLE]
    places += [
        ("placement_tasks", p) for p in np.flatnonzero(answer.placement_tasks > VISIBLE).tolist()
    ]
    if np.isfinite(answer.gap):
        places.append(("gap", 0))
    rounds = answer.certificate.rounds if answer.certificate else ()
    places += [("round level", r) for r, item in enumerate(rounds) if item.level > VISIBLE]
    places += [("round bound", r) for r, item in enumerate(rounds) if item.bound > VISIBLE]
    places += schedule_places(answer.schedule)
    if not places:
        return None
    what, where = draw(st.sampled_from(places))
    factor = draw(st.sampled_from(CHANGES))
    if what == "gap":
        return what, replace(answer, gap=answer.gap + factor * VISIBLE)
    if what.startswith("schedule"):
        return what, with_schedule(answer, what.removeprefix("schedule "), where, factor)
    if what in ("objective", "bound"):
        return what, replace(answer, **{what: getattr(answer, what) * factor})
    if what.startswith("round"):
        name = what.removeprefix("round ")
        item = replace(rounds[where], **{name: getattr(rounds[where], name) * factor})
        changed = (*rounds[:where], item, *rounds[where + 1 :])
        return what, replace(answer, certificate=replace(answer.certificate, rounds=changed))
    values = getattr(answer, what).copy()
    if answer.whole and what != "level":  # one task more or fewer, which is still whole
        values[where] += 1 if factor > 1 else -1
    else:
        values[where] *= factor
    return what, replace(answer, **{what: values})


def schedule_places(schedule):
    if schedule is None:
        return []
    places = [("schedule fraction", k) for k in range(len(schedule.fraction))]
    places += [("schedule tasks", k) for k in np.flatnonzero(schedule.tasks).tolist()]
    for name in ("objective", "bound", "lp_bound"):
        if getattr(schedule, name) > VISIBLE:
            places.append((f"schedule {name}", 0))
    if np.isfinite(schedule.gap):
        places.append(("schedule gap", 0))
    for slot, item in enumerate(schedule.placements or ()):
        places += [("schedule placements", (slot, p)) for p in range(len(item.tasks))]
    return places


def with_schedule(answer, name, where, factor):
    """The answer with one number of its schedule changed; a task more or fewer stays whole."""
    schedule = answer.schedule
    if name == "gap":
        return replace(answer, schedule=replace(schedule, gap=schedule.gap + factor * VISIBLE))
    if name in ("objective", "bound", "lp_bound"):
        changed = {name: getattr(schedule, name) * factor}
    elif name == "placements":
        slot, place = where
        item = schedule.placements[slot]
        tasks = item.tasks.copy()
        tasks[place] += 1 if factor > 1 else -1
        changed = {
            name: (
                *schedule.placements[:slot],
                replace(item, tasks=tasks),
                *schedule.placements[slot + 1 :],
            )
        }
    else:
        values = getattr(schedule, name).copy()
        if name == "tasks":
            values.flat[where] += 1 if factor > 1 else -1
        else:
            values[where] *= factor
        changed = {name: values}
    return replace(answer, schedule=replace(schedule, **changed))
