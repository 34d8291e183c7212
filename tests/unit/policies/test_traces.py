"""Traces from files: what is read, what is left out, and which line is bad and why."""

import gzip
import math

import numpy as np
import pytest

from policies import PolicyError, Problem, ProblemError, ProblemTooLargeError
from policies.simulation import simulate
from policies.simulation.traces import (
    FACEBOOK_MIX,
    TraceLineError,
    google_servers,
    read_alibaba,
    read_alibaba_servers,
    read_google_t0,
    read_swf,
    read_swim,
    read_table,
    resampled_day,
)
from tests.data import trace

GOOGLE = "0;{job};{index};{user};2;10;{run};-1;{cpu};{memory}"
SWF = "{job} {submit} -1 {run} {processors} -1 {memory} -1 -1 -1 -1 {user} 1 -1 -1 -1 -1 -1"
data = pytest.mark.data


def written(tmp_path, *lines, name="trace"):
    path = tmp_path / name
    path.write_bytes("\n".join(lines).encode() + b"\n")
    return path


def google(user="a", job="1", index=0, run=2_000_000, cpu=0.5, memory=0.25):
    return GOOGLE.format(user=user, job=job, index=index, run=run, cpu=cpu, memory=memory)


def swf(job=1, submit=0, run=10, processors=4, memory=-1, user=7):
    return SWF.format(
        job=job, submit=submit, run=run, processors=processors, memory=memory, user=user
    )


def test_google_s_tasks_are_grouped_by_user_and_demand(tmp_path):
    path = written(tmp_path, google(), google(index=1), google(user="b", job="2"), google(cpu=0))
    found = read_google_t0(path)
    assert found.tenants == ("a", "b")
    assert found.demand.tolist() == [[0.5, 0.25], [0.5, 0.25], [0, 0.25]]
    assert found.workload_tenant.tolist() == [0, 1, 0]
    assert found.trace.workload.tolist() == [0, 0, 1, 2]
    assert found.trace.job.tolist() == [0, 0, 1, 0]
    assert found.trace.duration.tolist() == [2] * 4
    assert found.work.tolist() == [3, 2]


def test_tasks_without_time_or_size_are_left_out_and_counted(tmp_path):
    path = written(tmp_path, google(run=0), google(cpu=0, memory=0), google())
    found = read_google_t0(path)
    assert found.left_out == {"it ran for no time": 1, "it demands nothing": 1}
    assert found.trace.tasks == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("0;1;0", "it has 3 fields; it needs 10"),
        (google(run=-5), "run time is '-5'; it must be a number from 0 on"),
        (google(cpu="nan"), "cpu is 'nan'; it must be a number from 0 on"),
        (google(memory="inf"), "memory is 'inf'; it must be a number from 0 on"),
        (google(cpu="1_0"), "cpu is '1_0'; it must be a number from 0 on"),
        (google(user=""), "a task needs a user and a job"),
        (google(cpu="\0"), "cpu is '\\x00'; it must be a number from 0 on"),
    ],
)
def test_a_bad_line_is_named_or_skipped(tmp_path, line, reason):
    path = written(tmp_path, google(), line, google())
    with pytest.raises(TraceLineError) as refused:
        read_google_t0(path)
    assert (refused.value.line, refused.value.reason) == (2, reason)
    assert refused.value.code == "trace.line"
    found = read_google_t0(path, skip_bad_lines=True)
    assert (found.bad_lines, found.trace.tasks) == (1, 2)
    assert [(bad.line, bad.reason) for bad in found.bad] == [(2, reason)]


def test_one_bad_line_among_very_many_is_found_and_few_are_remembered(tmp_path):
    lines = [swf(job=i, submit=i) for i in range(202_902)]
    lines[150_000] = "what is this"
    path = written(tmp_path, "; UnixStartTime: 0", *lines)
    with pytest.raises(TraceLineError, match="line 150002: it has 3 fields; it needs 18"):
        read_swf(path)
    found = read_swf(path, skip_bad_lines=True)
    assert (found.trace.tasks, found.bad_lines) == (202_901, 1)
    bad = written(tmp_path, *["?"] * 100)
    skipped = read_swf(bad, skip_bad_lines=True)
    assert (skipped.bad_lines, len(skipped.bad)) == (100, 20)


def test_a_job_of_the_workload_format_is_one_task_or_split_into_several(tmp_path):
    path = written(
        tmp_path, "; a comment", swf(processors=10, memory=100), swf(run=-1), swf(processors=0)
    )
    found = read_swf(path)
    assert found.tenants == ("user-7",)
    assert found.demand.tolist() == [[10]]
    assert found.left_out == {
        "its run time is not known, or 0": 1,
        "its number of processors is not known": 1,
    }
    split = read_swf(path, processors_per_task=4, memory=True, tenant="group")
    assert split.tenants == ("group-1",)
    assert split.demand.tolist() == [[4, 400], [2, 200]]
    assert split.trace.workload.tolist() == [0, 0, 1]
    assert split.trace.job.tolist() == [0, 0, 0]


def test_a_job_of_more_processors_than_a_node_has_is_a_gang(tmp_path):
    lines = [swf(processors=10, memory=100), swf(processors=4), swf(processors=8)]
    path = written(tmp_path, *lines)
    found = read_swf(path, processors_per_node=4, memory=True)
    assert found.demand.tolist() == [[10, 1000], [4, 0], [8, 0]]
    assert found.trace.workload.tolist() == [0, 1, 2]
    assert {j: (gang.count.tolist(), gang.demand.tolist()) for j, gang in found.gangs.items()} == {
        0: ([2, 1], [[4, 400], [2, 200]]),
        2: ([2], [[4, 0]]),
    }
    assert read_swf(path).gangs == {}
    # On 3 nodes of 4 processors the first job starts alone, and the others at its end.
    problem = read_swf(path, processors_per_node=4).problem([[4]], server_count=[3])
    ran = simulate(problem, read_swf(path, processors_per_node=4).trace, "drfh")
    assert (ran.start - ran.start.min()).tolist() == [0, 10, 10]


@pytest.mark.parametrize(
    "sizes",
    [{"processors_per_node": 0}, {"processors_per_node": 4, "processors_per_task": 4}],
    ids=str,
)
def test_a_node_has_processors_and_a_job_one_way_to_be_divided(tmp_path, sizes):
    with pytest.raises(ProblemError) as refused:
        read_swf(written(tmp_path, swf()), **sizes)
    assert refused.value.code == "trace.nodes"


def test_a_job_has_at_most_so_many_nodes(tmp_path):
    with pytest.raises(TraceLineError) as refused:
        read_swf(written(tmp_path, swf(processors=10_001)), processors_per_node=1)
    assert refused.value.reason == "10001 nodes in one job; at most 10000"


def test_pieces_count_for_the_size_of_a_trace(tmp_path):
    path = written(tmp_path, *[swf(processors=10)] * 3)
    assert read_swf(path, processors_per_node=1, most_tasks=30).trace.tasks == 3
    with pytest.raises(ProblemTooLargeError, match="more than 29 tasks and pieces of tasks"):
        read_swf(path, processors_per_node=1, most_tasks=29)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (swf(submit=-2), "time of submission is -2; it must be 0 or more"),
        (swf(processors=2.5), "2.5 processors; it must be a whole number"),
        (swf(processors=10**9), "1000000000 tasks in one job; at most 1000000"),
    ],
)
def test_jobs_of_the_workload_format_that_cannot_be(tmp_path, line, reason):
    with pytest.raises(TraceLineError) as refused:
        read_swf(written(tmp_path, line), processors_per_task=1)
    assert refused.value.reason == reason


def test_a_table_of_our_own(tmp_path):
    path = written(
        tmp_path,
        "tenant,submit,duration,demand.cpu,demand.gpu,tasks,job,priority",
        "a,5,10,1,0,3,x,2",
        'a,0,10,1,0,,x,2',
        '"b, c",1e1,0.5,0,1,1,,',
    )  # fmt: skip
    found = read_table(path)
    assert found.resources == ("cpu", "gpu")
    assert found.tenants == ("a", "b, c")
    assert found.trace.job.tolist() == [0, 0, 0, 0, 1]
    assert found.trace.submit.tolist() == [5, 5, 5, 0, 10]
    assert found.priority.tolist() == [2, 0]
    # Times out of order are put in order by the simulation.
    simulated = simulate(found.problem([[1, 1]]), found.trace, "drfh")
    assert simulated.start.tolist() == [10, 20, 30, 0, 10]


def test_a_table_has_columns_for_pieces(tmp_path):
    path = written(
        tmp_path,
        "tenant,submit,duration,demand.cpu,demand.gpu,pieces,second_pieces,second_demand.cpu,"
        "second_demand.gpu,per_server,together,at_least",
        "a,0,10,1,2,3,,,,1,rack,",
        "a,0,10,4,0,1,2,1,2,,,2",
        "a,0,10,4,0,,,,,,,",
        "a,0,10,4,0,1,,,,,,1",
    )
    found = read_table(path)
    assert found.demand.tolist() == [[3, 6], [6, 4], [4, 0]]
    assert found.trace.workload.tolist() == [0, 1, 2, 2]
    rack, head = found.gangs[0], found.gangs[1]
    assert sorted(found.gangs) == [0, 1]
    assert (rack.count.tolist(), rack.demand.tolist()) == ([3], [[1, 2]])
    assert (rack.per_server, rack.together, rack.at_least) == (1, "rack", 1)
    assert (head.count.tolist(), head.demand.tolist()) == ([1, 2], [[4, 0], [1, 2]])
    assert (head.per_server, head.together, head.at_least) == (0, "", 2)


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ("0,,,,,", "pieces is 0; it must be from 1 to 10000"),
        ("1.5,,,,,", "pieces is '1.5'; it must be a whole number"),
        ("10001,,,,,", "pieces is 10001; it must be from 1 to 10000"),
        ("2,1,0,,,", "a piece of the second kind demands nothing"),
        ("5001,,,,,2", "at_least times pieces is 10002; it must be at most 10000"),
        ("1,,,1,,", "per_server and together are for several pieces"),
        (",,,,rack,", "per_server and together are for several pieces"),
    ],
)
def test_pieces_of_a_table_that_cannot_be(tmp_path, cells, reason):
    header = "tenant,submit,duration,demand.cpu,pieces,second_pieces,second_demand.cpu,per_server"
    with pytest.raises(TraceLineError) as refused:
        read_table(written(tmp_path, header + ",together,at_least", f"a,0,1,1,{cells}"))
    assert (refused.value.line, refused.value.reason) == (2, reason)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("a,0,0,1", "duration is 0; it must be above 0"),
        ("a,0,-1,1", "duration is '-1'; it must be a number from 0 on"),
        ("a,nan,1,1", "submit is 'nan'; it must be a number"),
        ("a,0,1,0", "it demands nothing"),
        ("a,0,1,-1", "demand.cpu is '-1'; it must be a number from 0 on"),
        (",0,1,1", "tenant is empty"),
        ("z,0,1,1", "there is no tenant 'z'"),
        ("a,0,1", "it has 3 fields; the header has 4"),
    ],
)
def test_lines_of_a_table_that_cannot_be(tmp_path, line, reason):
    path = written(tmp_path, "tenant,submit,duration,demand.cpu", "a,0,1,1", line)
    with pytest.raises(TraceLineError) as refused:
        read_table(path, tenants=["a"])
    assert (refused.value.line, refused.value.reason) == (3, reason)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "tenant,submit,duration",
        "tenant,submit,duration,cpu",
        "tenant,tenant,submit,duration,demand.a",
        "tenant,submit,duration,demand.a,second_demand.b",
        "tenant,submit,duration,demand.a,a",
    ],
)
def test_a_table_needs_a_header(tmp_path, header):
    with pytest.raises(TraceLineError, match="line 1: the header is"):
        read_table(written(tmp_path, header))


@pytest.mark.parametrize("number", ["0", "1.5", "1000001", "-1"])
def test_a_line_is_of_a_whole_number_of_tasks(tmp_path, number):
    path = written(tmp_path, "tenant,submit,duration,demand.cpu,tasks", f"a,0,1,1,{number}")
    with pytest.raises(TraceLineError, match="line 2: tasks is"):
        read_table(path)


def test_files_that_cannot_be_read(tmp_path):
    for content, name in ((b"\xff\xfe", "trace"), (b"no gzip", "trace.gz")):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(TraceLineError, match="cannot be read"):
            read_google_t0(path)
    with pytest.raises(TraceLineError, match="cannot be read"):
        read_swf(tmp_path / "missing")
    whole = gzip.compress("\n".join(google() for _ in range(1000)).encode())
    (tmp_path / "cut.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TraceLineError, match="cannot be read"):
        read_google_t0(tmp_path / "cut.gz")


def test_an_empty_trace_is_read_and_simulated(tmp_path):
    found = read_swf(written(tmp_path, "; nothing"))
    assert found.trace.tasks == 0
    assert found.tenants == ()
    with pytest.raises(PolicyError, match="at least one task"):
        resampled_day(found, tasks=10, median_seconds=1, seed=1)


def test_the_mix_of_h_mrf_has_a_hundred_jobs(tmp_path):
    path = written(tmp_path, *(f"job{i}\t{100 + i}\t1\t0\t0\t0" for i in range(150)))
    found = read_swim(path, seed=3)
    assert sum(kind.jobs for kind in FACEBOOK_MIX) == 100
    sizes = np.bincount(found.trace.job)
    expected = [
        kind.map_tasks[0] + (kind.reduce_tasks[0] if kind.reduce_tasks else 0)
        for kind in FACEBOOK_MIX
        for _ in range(kind.jobs)
    ]
    assert sorted(sizes.tolist()) == sorted(expected)
    assert found.trace.submit.min() == 0
    assert found.trace.submit.max() == 99
    assert read_swim(path, seed=3).trace.duration.tolist() == found.trace.duration.tolist()
    assert read_swim(path, seed=4).trace.duration.tolist() != found.trace.duration.tolist()


def test_jobs_of_swim_are_of_several_in_turn_and_not_too_many(tmp_path):
    path = written(tmp_path, *(f"job{i}\t{100 + i}\t1\t0\t0\t0" for i in range(150)))
    found, whole = (read_swim(path, seed=3, jobs=7, tenants=each) for each in (3, None))
    assert found.tenants == ("user-1", "user-2", "user-3")
    owners = found.workload_tenant[found.trace.workload]
    assert (owners == found.trace.job % 3).all()
    assert found.trace.duration.tolist() == whole.trace.duration.tolist()
    assert read_swim(path, seed=3, most_tasks=6782).trace.tasks == 6782
    with pytest.raises(ProblemTooLargeError, match="more than 6781 tasks"):
        read_swim(path, seed=3, most_tasks=6781)
    with pytest.raises(ProblemError, match="tenants is 0"):
        read_swim(path, seed=3, tenants=0)


def test_pods_select_gpu_models_and_have_tenants_by_their_names(tmp_path):
    header = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
        "deletion_time,scheduled_time"
    )
    path = written(
        tmp_path,
        header,
        "p1,12000,1024,1,500,V100|A10,LS,Running,0,100,10",
        "p2,1000,0,2,1000,,LS,Running,5,100,5",
        "p3,1000,0,0,0,,LS,Pending,5,100,",
        "p4,1000,0,0,0,,LS,Failed,5,100,100",
    )
    found = read_alibaba(path, tenants=2)
    assert found.demand.tolist() == [[12, 1024, 0.5], [1, 0, 2]]
    assert found.selectors == ({"model": ("A10", "V100")}, {})
    assert found.trace.duration.tolist() == [90, 95]
    assert found.left_out == {
        "it was never scheduled": 1,
        "it ran for no time, or demands nothing": 1,
    }
    nodes = written(
        tmp_path, "sn,cpu_milli,memory_mib,gpu,model", "a,32000,2048,2,V100", "b,32000,2048,2,V100",
        "c,1000,10,0,", name="nodes",
    )  # fmt: skip
    servers = read_alibaba_servers(nodes)
    assert servers.server_count.tolist() == [2, 1]
    assert servers.server_labels == ({"model": "V100"}, {})
    problem = found.problem(
        servers.capacity, server_count=servers.server_count, server_labels=servers.server_labels
    )
    assert simulate(problem, found.trace, "drfh").server.tolist() == [0, 1]
    late = written(tmp_path, header, "p,1,1,0,0,,LS,Running,0,5,10")
    with pytest.raises(TraceLineError, match="line 2: it was deleted at 5 and scheduled at 10"):
        read_alibaba(late)


def test_a_day_is_made_of_whole_jobs_and_the_same_for_the_same_seed(tmp_path):
    path = written(tmp_path, google(), google(index=1), google(user="b", job="2", cpu=0.1))
    submitted = read_google_t0(path)
    day = resampled_day(submitted, tasks=1000, median_seconds=60, seed=5)
    again = resampled_day(submitted, tasks=1000, median_seconds=60, seed=5)
    assert 1000 <= day.trace.tasks <= 1001
    assert day.trace.duration.tolist() == again.trace.duration.tolist()
    assert 0 <= day.trace.submit.min() <= day.trace.submit.max() < 86_400
    sizes = np.bincount(day.trace.job)
    assert set(sizes.tolist()) == {1, 2}
    assert (day.trace.workload[day.trace.job == 0] == day.trace.workload[0]).all()
    assert np.median(day.trace.duration) == pytest.approx(60, rel=0.2)
    for wrong in (
        {"median_seconds": 0},
        {"median_seconds": math.nan},
        {"deviation": -1},
        {"tasks": 0},
    ):
        with pytest.raises(PolicyError):
            resampled_day(submitted, **{"tasks": 1, "median_seconds": 1, "seed": 1} | wrong)


def test_servers_are_drawn_from_google_s_mix():
    drawn = google_servers(2000, seed=1)
    assert drawn.server_count.sum() == 2000
    assert (drawn.server_count @ drawn.capacity).tolist() == pytest.approx([1050, 930], rel=0.05)
    assert google_servers(2000, seed=1).server_count.tolist() == drawn.server_count.tolist()
    with pytest.raises(PolicyError, match="0 servers"):
        google_servers(0, seed=1)


def test_a_job_larger_than_any_server_waits_and_holds_nobody_up(tmp_path):
    path = written(tmp_path, swf(processors=64), swf(job=2, processors=1))
    found = read_swf(path)
    simulated = simulate(found.problem([[32], [48]]), found.trace, "drfh")
    assert np.isnan(simulated.start).tolist() == [True, False]


@data
@pytest.mark.parametrize(
    ("read", "parts", "tasks", "tenants", "left_out"),
    [
        (read_google_t0, ("google-2011", "tasks_t0.csv.gz"), 33_299, 245, 3),
        (read_swf, ("pwa", "NASA-iPSC-1993-3.1-cln.swf.gz"), 18_066, 69, 173),
        (read_alibaba, ("alibaba-gpu-2023", "openb_pod_list_gpuspec33.csv"), 7_255, 20, 897),
    ],
)
def test_the_published_traces_are_read_whole(read, parts, tasks, tenants, left_out):
    found = read(trace(*parts))
    assert (found.trace.tasks, len(found.tenants)) == (tasks, tenants)
    assert (sum(found.left_out.values()), found.bad_lines) == (left_out, 0)


@data
def test_the_published_servers_are_read_whole():
    servers = read_alibaba_servers(trace("alibaba-gpu-2023", "openb_node_list_all_node.csv"))
    assert (len(servers.server_count), servers.server_count.sum()) == (27, 1523)
    assert servers.server_count[servers.capacity[:, 2] > 0].sum() == 1213
    Problem.create(
        resources=servers.resources, capacity=servers.capacity, tenants=["a"], demand=[[1, 0, 0]],
        server_count=servers.server_count, server_labels=servers.server_labels,
    )  # fmt: skip
