"""What sacct prints, as a trace: what a job held, what is left out, and which line is bad and why."""

import gzip
from datetime import UTC, datetime

import pytest

from policies import PolicyError
from policies.simulation import simulate
from policies.simulation.traces import TraceLineError, read_sacct

HEADER = "JobID|User|Account|Submit|Start|End|AllocTRES|State"
SUBMITTED = datetime(2026, 10, 5, 9, tzinfo=UTC).timestamp()


def job(
    number="4711",
    *,
    user="ada",
    account="bio",
    submit="2026-10-05T09:00:00",
    start="2026-10-05T10:00:00",
    end="2026-10-05T11:00:00",
    tres="billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=1536M,node=1",
    state="COMPLETED",
):
    return f"{number}|{user}|{account}|{submit}|{start}|{end}|{tres}|{state}"


def written(tmp_path, *lines, header=HEADER, name="jobs.txt"):
    path = tmp_path / name
    path.write_bytes("\n".join([header, *lines]).encode() + b"\n")
    return path


def test_a_job_is_what_it_held_from_its_start_to_its_end(tmp_path):
    found = read_sacct(written(tmp_path, job()))
    assert found.resources == ("cpu", "memory")
    assert found.tenants == ("bio",)
    assert found.demand.tolist() == [[8, 1.5]]
    assert found.trace.submit.tolist() == [SUBMITTED]
    assert found.trace.duration.tolist() == [3600]
    by_user = read_sacct(written(tmp_path, job()), tenant="user", resources=("gpu", "cpu"))
    assert by_user.tenants == ("ada",)
    assert by_user.demand.tolist() == [[2, 8]]


def test_a_job_on_several_nodes_is_a_gang(tmp_path):
    found = read_sacct(
        written(tmp_path, job(tres="cpu=64,mem=1T,node=4"), job("4712_3"), job("4712_4"))
    )
    assert found.demand.tolist() == [[64, 1024], [8, 1.5]]
    assert found.trace.workload.tolist() == [0, 1, 1]
    assert found.trace.job.tolist() == [0, 1, 1]
    (gang,) = found.gangs.values()
    assert list(found.gangs) == [0]
    assert (gang.count.tolist(), gang.demand.tolist()) == ([4], [[16, 256]])
    assert gang.per_server == 1


def test_nodes_without_alloctres_are_those_of_nnodes(tmp_path):
    header = "JobID|Account|Submit|Start|End|AllocCPUS|ReqMem|NNodes"
    line = "7|bio|2026-10-05T09:00:00|2026-10-05T10:00:00|2026-10-05T11:00:00|12|4Gn|3"
    (gang,) = read_sacct(written(tmp_path, line, header=header)).gangs.values()
    assert (gang.count.tolist(), gang.demand.tolist()) == ([3], [[4, 4]])


def test_a_job_on_too_many_nodes_is_no_gang(tmp_path):
    path = written(tmp_path, job(tres="cpu=20002,node=10001"))
    with pytest.raises(
        TraceLineError, match="10001 nodes; it must be a whole number from 1 to 10000"
    ):
        read_sacct(path)
    assert read_sacct(path, gangs=False).trace.tasks == 10_001


def test_each_node_of_a_job_can_be_a_task(tmp_path):
    found = read_sacct(
        written(tmp_path, job(tres="cpu=64,mem=1T,node=4"), job("4712_3"), job("4712_4")),
        gangs=False,
    )
    assert found.gangs == {}
    assert found.demand.tolist() == [[16, 256], [8, 1.5]]
    assert found.trace.workload.tolist() == [0, 0, 0, 0, 1, 1]
    assert found.trace.job.tolist() == [0, 0, 0, 0, 1, 1]


def test_what_never_ran_or_still_runs_and_steps_are_left_out_and_counted(tmp_path):
    found = read_sacct(
        written(
            tmp_path,
            job("1.batch", account="", tres=""),
            job("2_[5-9]", start="Unknown", end="Unknown", tres="", state="PENDING"),
            job("3", start="None", state="CANCELLED by 0"),
            job("4", end="Unknown", state="RUNNING"),
            job("5", end="2026-10-05T10:00:00", state="FAILED"),
            job("6"),
            "",
        )
    )
    assert found.left_out == {
        "it is a step of a job": 1,
        "it never ran": 2,
        "it has not ended": 1,
        "it ran for no time": 1,
    }
    assert found.trace.tasks == 1


@pytest.mark.parametrize(
    ("memory", "gib"), [("4G", 4), ("4Gn", 8), ("512Mc", 8), ("0n", 0), ("", 0)]
)
def test_without_trackable_resources_cpus_and_memory_are_read(tmp_path, memory, gib):
    header = "JobIDRaw|Account|Submit|Start|End|ReqCPUS|ReqMem|NNodes"
    times = "2026-10-05T09:00:00|2026-10-05T10:00:00|2026-10-05T11:00:00"
    path = written(tmp_path, f"7|bio|{times}|16|{memory}|2", header=header)
    found = read_sacct(path, gangs=False)
    assert found.demand.tolist() == [[8, gib / 2]]
    assert found.trace.tasks == 2


def test_what_was_asked_for_counts_where_nothing_says_what_was_held(tmp_path):
    header = "JobID|Account|Submit|Start|End|AllocTRES|ReqTRES"
    times = "1000|2000|2060.5"
    with pytest.raises(
        TraceLineError, match=r"line 2: End is '2060\.5'; it must be a time such as"
    ):
        read_sacct(written(tmp_path, f"7|bio|{times}||cpu=2,mem=4G", header=header))
    times = "1000|2000|2060"
    found = read_sacct(written(tmp_path, f"7|bio|{times}||cpu=2,mem=4G", header=header))
    assert found.demand.tolist() == [[2, 4]]
    assert found.trace.submit.tolist() == [1000]
    assert found.trace.duration.tolist() == [60]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("4711|ada", "it has 2 fields; it needs 8"),
        (job(account=""), "Account is empty"),
        (job(submit="2026-10-05T10:00:01"), "it began 1 s before it was submitted"),
        (job(end="2026-10-05T09:59:50"), "it ended 10 s before it began"),
        (job(start="yesterday"),
         "Start is 'yesterday'; it must be a time such as 2026-01-05T00:00:00"),
        (job(tres="cpu=-1"), "cpu is '-1'; it must be a number from 0 on"),
        (job(tres="cpu=nan"), "cpu is 'nan'; it must be a number from 0 on"),
        (job(tres="cpu=1\0"), "cpu is '1\\x00'; it must be a number from 0 on"),
        (job(tres="cpu=٣"), "cpu is '٣'; it must be a number from 0 on"),
        (job(tres="cpu=1,mem=4096"), "'mem=4096' is no memory such as 512M or 16G"),
        (job(tres="billing=8"), "it has no cpu and no memory"),
        (job(tres="cpu=1,mem=99999999999E"), "it has 1.07374e+20 of a resource"),
        (job(tres="cpu=4,node=0"), "0 nodes; it must be a whole number from 1 to 10000"),
        (job(tres="cpu=4,node=1.5"), "1.5 nodes; it must be a whole number from 1 to 10000"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named_or_skipped(tmp_path, line, reason):
    path = written(tmp_path, job("1"), line, job("2"))
    with pytest.raises(TraceLineError) as refused:
        read_sacct(path)
    assert (refused.value.line, refused.value.reason) == (3, reason)
    found = read_sacct(path, skip_bad_lines=True)
    assert (found.bad_lines, found.trace.tasks) == (1, 2)
    assert [(bad.line, bad.reason) for bad in found.bad] == [(3, reason)]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("JobID|User|Submit|Start|End|AllocTRES", "lacks Account"),
        ("User|Account|Start|End", "lacks JobID, Submit, AllocTRES"),
        (HEADER + "|State", "has a column twice"),
        ("4711|ada|bio", "lacks JobID, Account, Submit, Start, End, AllocTRES"),
    ],
)
def test_a_header_that_cannot_be_says_what_to_print(tmp_path, header, reason):
    with pytest.raises(TraceLineError, match=f"line 1: the header {reason}: read what this prints"):
        read_sacct(written(tmp_path, job(), header=header))


def test_owners_and_resources_that_cannot_be(tmp_path):
    path = written(tmp_path, job())
    with pytest.raises(PolicyError, match="must be one of account, user, group, partition, qos"):
        read_sacct(path, tenant="cluster")
    for resources in ((), ("cpu", "cpu")):
        with pytest.raises(PolicyError, match="name each resource once"):
            read_sacct(path, resources=resources)


def test_a_packed_and_long_record_is_simulated(tmp_path):
    lines = [
        job(str(i), account=f"group-{i % 3}", tres="cpu=2,mem=4G,node=1") for i in range(30_000)
    ]
    path = tmp_path / "jobs.txt.gz"
    path.write_bytes(gzip.compress("\n".join([HEADER, *lines]).encode()))
    found = read_sacct(path)
    assert (found.trace.tasks, found.tenants) == (30_000, ("group-0", "group-1", "group-2"))
    problem = found.problem([[64, 256]], server_count=[10])
    ran = simulate(problem, found.trace, "drfh")
    # 320 jobs of an hour at a time.
    assert ran.ended - SUBMITTED == 94 * 3600
    assert ran.completed.tolist() == [1, 1, 1]


def test_an_empty_record_is_an_empty_trace(tmp_path):
    found = read_sacct(written(tmp_path))
    assert (found.trace.tasks, found.tenants) == (0, ())
