"""Commands of Slurm as processes: side by side, and none after a failure."""

import pytest

from allocator_agent.errors import SchedulerAway
from allocator_agent.slurm.commands import Commands

# Ends once as many as this have begun.
MEET = 'touch "$0/$1"; until [ "$(ls "$0" | wc -l)" -ge 16 ]; do sleep 0.01; done'


def test_commands_wait_for_their_answers_side_by_side(tmp_path):
    Commands(seconds=20).run_all(("sh", "-c", MEET, str(tmp_path), str(n)) for n in range(16))
    assert len(list(tmp_path.iterdir())) == 16


def test_after_a_refusal_no_further_command_begins(tmp_path):
    refused = ("sh", "-c", "echo no such account >&2; exit 1")
    others = [("sh", "-c", f"sleep 0.3; touch {tmp_path / str(n)}") for n in range(40)]
    with pytest.raises(SchedulerAway, match="failed with: no such account"):
        Commands().run_all([refused, *others])
    assert len(list(tmp_path.iterdir())) in (15, 16)  # those that had begun, to their end


HALF = """\
echo 'physics||||1|3||'
echo 'sacctmgr: error: Sending message type DBD_GET_TRES: 11: Resource temporarily unavailable' >&2
echo 'sacctmgr: error: DBD_GET_TRES failure: Connection refused' >&2
"""


def test_rows_without_limits_of_an_accounting_that_ends_are_no_answer():
    """Of Slurm 22.05, whose slurmdbd was killed between the two requests of sacctmgr."""
    with pytest.raises(SchedulerAway, match="DBD_GET_TRES failure: Connection refused"):
        Commands().run("sh", "-c", HALF)
    warns = "echo rows; echo 'sacctmgr: error: Ignoring obsolete FastSchedule=1' >&2"
    assert Commands().run("sh", "-c", warns) == "rows\n"


def test_nothing_to_do_starts_nothing():
    Commands("/nowhere").run_all([])
