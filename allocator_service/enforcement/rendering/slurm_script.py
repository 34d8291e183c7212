"""The objects of Slurm as a script of its own commands, for sites without an agent.

The script cannot read the present limits, so it lowers everything to nothing first and raises it then.
At no instant do the limits exceed the capacity. Running jobs go on meanwhile, new ones wait.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

NAMES_OF_A_COMMAND = 200


def slurm_script(objects: Sequence[Mapping[str, Any]], *, notes: Iterable[str]) -> str:
    """Return an idempotent script for sh."""
    of_kind = {
        kind: [each for each in objects if each["kind"] == kind]
        for kind in ("group", "removed", "account", "class", "reservation")
    }
    accounts = of_kind["group"] + of_kind["account"]
    lines = ["#!/bin/sh"]
    lines += [f"# {objects[0]['comment']}"] if objects else []
    lines += [f"# {note}" for note in notes]
    lines += [
        "",
        "# What fails, or has nothing to modify, is passed over; the script ends with 1 then.",
        "failed=0",
        'run() { "$@" || failed=1; }',
        "",
        "# Lower first: everything to 0.",
    ]
    # Raising one account before another is lowered would let both run more than the capacity.
    lines += _lowered(accounts, of_kind["class"])
    lines += ["", "# Then raise."]
    lines += [_account(each) for each in accounts]
    lines += [_class(each) for each in of_kind["class"]]
    lines += [_removed(each) for each in of_kind["removed"]]
    if of_kind["reservation"]:
        lines += ["", "# Slots, in UTC.", "export TZ=UTC"]
        lines += [_reservation(each) for each in of_kind["reservation"]]
    lines += ["", 'exit "$failed"']
    return "\n".join(lines) + "\n"


def _lowered(
    accounts: Sequence[Mapping[str, Any]], classes: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    for some in _batches([each["account"] for each in accounts]):
        nothing = _tres(dict.fromkeys(accounts[0]["limits"], 0))
        yield f"run sacctmgr -i modify account where name={','.join(some)} set {nothing}"
    for partition in dict.fromkeys(each["partition"] for each in classes):
        of = [each["account"] for each in classes if each["partition"] == partition]
        nothing = _tres(dict.fromkeys(classes[0]["limits"], 0))
        for some in _batches(of):
            where = shlex.quote(f"partition={partition}")
            yield f"run sacctmgr -i modify user where account={','.join(some)} {where} set {nothing}"


def _batches(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), NAMES_OF_A_COMMAND):
        yield names[start : start + NAMES_OF_A_COMMAND]


def _account(each: Mapping[str, Any]) -> str:
    return (
        f"run sacctmgr -i modify account where name={each['account']} set {_tres(each['limits'])}"
        f"{_minutes(each)} fairshare={each['fairshare']}"
    )


def _removed(each: Mapping[str, Any]) -> str:
    return (
        f"run sacctmgr -i modify account where name={each['account']} set {_tres(each['limits'])}"
        f"{_minutes(each)}"
    )


def _class(each: Mapping[str, Any]) -> str:
    where = shlex.quote(f"partition={each['partition']}")
    return (
        f"run sacctmgr -i modify user where account={each['account']} {where}"
        f" set {_tres(each['limits'])}"
    )


def _reservation(each: Mapping[str, Any]) -> str:
    partition = each["partition"]
    where = "" if partition is None else " " + shlex.quote(f"PartitionName={partition}")
    name = f"ReservationName={each['name']}"
    what = (
        f"StartTime={_instant(each['start'])} EndTime={_instant(each['end'])}"
        f" Accounts={each['account']} CoreCnt={each['cores']}{where}"
    )
    return (
        f"scontrol show reservation {each['name']} >/dev/null 2>&1 ||"
        f" run scontrol create reservation {name} {what}"
    )


def _tres(limits: Mapping[str, int]) -> str:
    return "GrpTRES=" + _listed(limits)


def _minutes(each: Mapping[str, Any]) -> str:
    return f" GrpTRESMins={_listed(each['minutes'])}" if "minutes" in each else ""


def _listed(limits: Mapping[str, int]) -> str:
    return ",".join(f"{name}={limit}" for name, limit in limits.items())


def _instant(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S")
