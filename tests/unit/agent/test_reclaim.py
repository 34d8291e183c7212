"""Taking back what jobs above the decision hold."""

import itertools
import random
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator_agent.model import Job, Observation, Rendering, Terms
from allocator_agent.reclaim import Memory, plan_reclaim, to_stop
from allocator_agent.rounds import with_minima
from allocator_agent.slurm.planning import plan_ends
from tests.examples import examples, thorough

MIB = 2**20


def job(number, *, account="a", cpu=1, memory=100, running=True, started=0, **more):
    demand = {"cpu": Fraction(cpu), "memory": Fraction(memory * MIB)}
    return Job(str(number), account, demand, running, started=started, **more)


def names(groups):
    return [each.id for group in groups for each in group]


def within(jobs, limit):
    return all(sum(each.total[name] for each in jobs) <= most for name, most in limit.items())


JOBS = st.lists(
    st.builds(
        job,
        st.integers(1, 30),
        cpu=st.integers(1, 4),
        memory=st.integers(0, 500),
        running=st.booleans(),
        started=st.integers(0, 9),
        tasks=st.integers(1, 3),
        whole=st.sampled_from(["", "", "x", "y"]),
    ),
    max_size=12,
)


@examples(500)
@given(JOBS, st.integers(0, 20), st.integers(0, 2000))
def test_what_stays_is_within_the_limit_and_nothing_that_ends_could_have_stayed(jobs, cpu, memory):
    jobs = list({each.id: each for each in jobs}.values())
    limit = {"cpu": Fraction(cpu), "memory": Fraction(memory * MIB)}
    ended = to_stop(jobs, limit)
    gone = set(names(ended))
    stay = [each for each in jobs if each.running and each.id not in gone]
    assert all(each.running for group in ended for each in group)
    assert within(stay, limit)
    for group in ended:
        assert not within([*stay, *group], limit)  # never below the decision
    wholes = [each.whole for each in stay if each.whole]
    assert not {each.whole for group in ended for each in group if each.whole} & set(wholes)


def test_the_youngest_of_equal_jobs_end():
    jobs = [job(number, started=number) for number in range(1, 9)]
    assert names(to_stop(jobs, {"cpu": Fraction(5)})) == ["8", "7", "6"]
    assert to_stop(jobs, {"cpu": Fraction(8)}) == []


def test_a_job_that_must_not_be_requeued_stays():
    jobs = [job(1, started=1), job(2, started=2, can_requeue=False)]
    assert names(to_stop(jobs, {"cpu": Fraction(1)})) == ["1"]


def test_all_parts_of_a_job_end_together():
    jobs = [job(1, started=1), job(2, started=2, whole="2"), job(3, started=2, whole="2")]
    assert sorted(names(to_stop(jobs, {"cpu": Fraction(2)}))) == ["2", "3"]
    jobs[2] = job(3, started=2, whole="2", can_requeue=False)
    assert names(to_stop(jobs, {"cpu": Fraction(2)})) == ["1"]


def test_a_job_that_is_younger_than_the_minimum_stays():
    jobs = [job(1, started=10), job(2, started=70), job(3, started=100)]
    terms = Terms(minimum_run_seconds=60)
    assert names(to_stop(jobs, {"cpu": Fraction(1)}, terms=terms, now=130)) == ["2", "1"]
    assert names(to_stop(jobs, {"cpu": Fraction(1)}, terms=terms, now=129)) == ["1"]
    assert to_stop(jobs, {"cpu": Fraction(1)}, terms=terms, now=69) == []


def test_a_job_has_the_minimum_of_its_workload():
    jobs = [job(1, started=10), job(2, started=70, minimum_run=200), job(3, started=100)]
    jobs += [job(4, started=120, minimum_run=5)]
    terms = Terms(minimum_run_seconds=60)
    assert names(to_stop(jobs, {"cpu": Fraction(0)}, terms=terms, now=159)) == ["4", "1"]
    assert names(to_stop(jobs, {"cpu": Fraction(0)}, terms=terms, now=270)) == ["4", "3", "2", "1"]
    assert names(to_stop(jobs, {"cpu": Fraction(0)}, now=125)) == ["4", "3", "1"]


def test_minima_of_workloads_reach_their_jobs():
    terms = Terms(60, 0, None, 60, {("a", "lab/any/cpu=1"): 5})
    rendering = Rendering("run", 1, [], [], terms)
    observed = Observation([], [job(1), job(2), job(3)], frozenset({"a"}))
    of_jobs = {"1": ("a", "lab/any/cpu=1"), "2": ("a", "lab/any/cpu=2")}
    marked = with_minima(observed, rendering, of_jobs)
    assert [each.minimum_run for each in marked.jobs] == [5, None, None]
    assert with_minima(observed, Rendering("run", 1, [], [], Terms()), of_jobs) is observed


def test_jobs_with_notice_end_before_younger_ones():
    jobs = [job(number, started=number) for number in range(1, 5)]
    assert names(to_stop(jobs, {"cpu": Fraction(2)}, noticed={"1": 5})) == ["1", "4"]


def account(tenant, **limits):
    return {"kind": "account", "tenant": tenant, "fairshare": 1, "limits": limits}


def of_class(tenant, partition, **limits):
    return {"kind": "class", "tenant": tenant, "partition": partition, "limits": limits}


def planned(objects, jobs, *, terms=None, memory=None, now=0, classes=False, ranks=()):
    tenants = [{"tenant": name, "reclaim_rank": rank} for name, rank in dict(ranks).items()]
    rendering = Rendering("run", 1, tenants, objects, terms or Terms())
    accounts = {item["tenant"]: item["tenant"] for item in objects}
    return plan_ends(rendering, jobs, accounts, memory or Memory(), classes=classes, now=now)


def keys(victims):
    return [each.key for each in victims]


def test_classes_are_taken_back_first_and_not_twice():
    jobs = [
        job(1, started=1, partition="big"),
        job(2, started=2, partition="big"),
        job(3, started=3, partition="small"),
    ]
    objects = [account("a", cpu=2), of_class("a", "big", cpu=1), of_class("a", "small", cpu=1)]
    assert keys(planned(objects, jobs, classes=True).ended) == ["2"]
    assert keys(planned(objects, jobs).ended) == ["3"]


def test_a_job_whose_parts_are_in_two_partitions_ends_whole():
    jobs = [
        job(1, started=1, partition="big"),
        job(2, started=2, partition="big", whole="2"),
        job(3, started=2, partition="small", whole="2"),
    ]
    objects = [account("a", cpu=3), of_class("a", "big", cpu=1), of_class("a", "small", cpu=1)]
    (victim,) = planned(objects, jobs, classes=True).ended
    assert [each.id for each in victim.jobs] == ["2", "3"]


def test_a_notice_comes_first_and_the_end_when_it_is_over():
    jobs = [job(1, started=1), job(2, started=2), job(3, account="b", running=False)]
    objects = [account("a", cpu=1), account("b", cpu=1)]
    terms, memory = Terms(notice_seconds=300), Memory()
    plan = planned(objects, jobs, terms=terms, memory=memory, now=1000)
    assert (plan.ended, keys(plan.warned), len(plan)) == ([], ["2"], 1)
    assert (plan.warned[0].ends_at, plan.warned[0].heir) == (1300, "b")
    memory.keep(plan, 1000)
    plan = planned(objects, jobs, terms=terms, memory=memory, now=1299)
    assert (plan.ended, plan.warned, keys(plan.waiting), len(plan)) == ([], [], ["2"], 0)
    memory.keep(plan, 1299)
    # The agent starts again with what the service has.
    plan = planned(objects, jobs, terms=terms, memory=Memory({"2": 1300}), now=1300)
    assert keys(plan.ended) == ["2"]
    # Slurm refuses: it is tried again without a new notice.
    memory.keep(plan, 1300)
    assert keys(planned(objects, jobs, terms=terms, memory=memory, now=1315).ended) == ["2"]


def test_a_notice_is_forgotten_when_the_decision_gives_the_job_back():
    jobs = [job(1, started=1), job(2, started=2)]
    terms, memory = Terms(notice_seconds=300), Memory()
    memory.keep(planned([account("a", cpu=1)], jobs, terms=terms, memory=memory, now=0), 0)
    memory.keep(planned([account("a", cpu=2)], jobs, terms=terms, memory=memory, now=250), 250)
    plan = planned([account("a", cpu=1)], jobs, terms=terms, memory=memory, now=400)
    assert (plan.ended, plan.warned[0].ends_at) == ([], 700)


def test_a_shorter_notice_holds_for_those_that_have_one():
    jobs = [job(1, started=1), job(2, started=2)]
    plan = planned(
        [account("a", cpu=1)], jobs, terms=Terms(notice_seconds=10),
        memory=Memory({"2": 5000}), now=100,
    )  # fmt: skip
    assert plan.waiting[0].ends_at == 110


def test_no_more_tasks_end_in_an_interval_than_the_pool_allows():
    jobs = [job(number, account=name, started=number) for number in range(4) for name in "ab"]
    jobs = [Job(**{**vars(each), "id": f"{each.account}{each.id}"}) for each in jobs]
    objects = [account("a", cpu=0), account("b", cpu=0)]
    terms, memory = Terms(churn=3, interval_seconds=60), Memory()
    ranks = {"a": 1, "b": 0}
    ended = []
    for now in (100, 130, 160, 220):
        plan = planned(objects, jobs, terms=terms, memory=memory, now=now, ranks=ranks)
        memory.keep(plan, now)
        ended.append(keys(plan.ended))
        jobs = [each for each in jobs if each.id not in keys(plan.ended)]
    # The lowest rank first, then the youngest; the interval ends 60 s later.
    assert ended == [["b3", "b2", "b1"], [], ["b0", "a3", "a2"], ["a1", "a0"]]


def test_a_gang_of_more_tasks_than_may_end_ends_alone():
    jobs = [job(1, tasks=8, started=2), job(2, started=1)]
    terms, memory = Terms(churn=4), Memory()
    plan = planned([account("a", cpu=0)], jobs, terms=terms, memory=memory, now=100)
    assert keys(plan.ended) == ["1"]
    memory.keep(plan, 100)
    assert planned([account("a", cpu=0)], jobs[1:], terms=terms, memory=memory, now=101).ended == []


def test_a_clock_that_is_set_back_does_not_stop_the_end_of_jobs():
    memory = Memory()
    jobs = [job(1), job(2)]
    terms = Terms(churn=1)
    memory.keep(planned([account("a", cpu=0)], jobs, terms=terms, memory=memory, now=10**6), 10**6)
    assert memory.left(terms, 10**6) == 0
    assert memory.left(terms, 1000) == 1


def test_heirs_are_those_who_lack_most_and_only_of_what_they_wait_for():
    running = [job(number, started=number, cpu=2) for number in range(1, 5)]
    waiting = [
        job(10, account="b", cpu=1, running=False),
        job(11, account="c", cpu=4, running=False),
        job(12, account="d", cpu=4, running=False),  # it has nothing in the decision
    ]
    limits = {
        "a": {"cpu": Fraction(2)}, "b": {"cpu": Fraction(4)}, "c": {"cpu": Fraction(4)},
        "d": {"cpu": Fraction(0)},
    }  # fmt: skip
    plan = plan_reclaim(
        [(each,) for each in running[1:]], jobs=[*running, *waiting], limits=limits, ranks={},
        terms=Terms(), memory=Memory(), now=0,
    )  # fmt: skip
    assert [(each.key, each.heir) for each in plan.ended] == [("4", "c"), ("3", "c"), ("2", "b")]


def test_a_gang_that_is_due_is_not_put_off_by_smaller_jobs():
    jobs = [job(1, tasks=8, started=2), job(2, account="b", started=1)]
    objects = [account("a", cpu=0), account("b", cpu=0)]
    terms, memory = Terms(churn=4, interval_seconds=60), Memory()
    memory.keep(planned([account("c", cpu=0)], [job(3, account="c")], terms=terms, now=100), 100)
    ranks = {"a": 0, "b": 1}
    assert planned(objects, jobs, terms=terms, memory=memory, now=130, ranks=ranks).ended == []
    assert keys(planned(objects, jobs, terms=terms, memory=memory, now=160, ranks=ranks).ended) == [
        "1"
    ]


def test_a_job_that_the_scheduler_refuses_to_end_comes_last_and_counts_for_nothing():
    jobs = [job(1, started=1), job(2, account="b", started=2)]
    objects = [account("a", cpu=0), account("b", cpu=0)]
    terms, memory, ranks = Terms(churn=1), Memory(), {"a": 1, "b": 0}
    plan = planned(objects, jobs, terms=terms, memory=memory, now=10, ranks=ranks)
    plan.refused.add("2")
    memory.keep(plan, 10)
    assert keys(plan.ended) == ["2"]
    assert keys(planned(objects, jobs, terms=terms, memory=memory, now=11, ranks=ranks).ended) == [
        "1"
    ]


def test_a_notice_of_an_earlier_run_does_not_end_a_later_one():
    jobs = [job(1, started=1), job(2, started=500)]
    plan = planned(
        [account("a", cpu=1)],
        jobs,
        terms=Terms(notice_seconds=60),
        memory=Memory({"2": 400}),
        now=600,
    )
    assert (plan.ended, keys(plan.warned), plan.warned[0].ends_at) == ([], ["2"], 660)


def test_an_account_is_no_heir_of_itself():
    jobs = [job(1, started=1, memory=500), job(2, memory=1, running=False)]
    limits = {"a": {"cpu": Fraction(2), "memory": Fraction(100 * MIB)}}
    plan = plan_reclaim(
        [(jobs[0],)], jobs=jobs, limits=limits, ranks={}, terms=Terms(), memory=Memory(), now=0
    )
    assert plan.ended[0].heir == ""


def test_a_job_without_a_known_start_has_not_run_for_the_minimum():
    terms = Terms(minimum_run_seconds=60)
    assert to_stop([job(1, started=0)], {"cpu": Fraction(0)}, terms=terms, now=10**9) == []


class Cluster:
    """Accounts of equal tasks on one server, with decisions that divide it as equally as demand lets."""

    def __init__(self, seed, terms, *, capacity=24, accounts=4, churn_of_demand=0.1):
        self.chance, self.terms, self.capacity = random.Random(seed), terms, capacity
        self.accounts = [f"a{number}" for number in range(accounts)]
        self.jobs, self.memory, self.numbers = [], Memory(), itertools.count()
        self.now, self.churn_of_demand = 10**6, churn_of_demand
        self.demand = dict.fromkeys(self.accounts, 0)

    def decide(self):
        """Give each account in turn a task until all have what they want, or nothing is left."""
        for name in self.accounts:
            if self.chance.random() < self.churn_of_demand:
                self.demand[name] = self.chance.choice([0, 3, 8, 30])
        limits = dict.fromkeys(self.accounts, 0)
        while sum(limits.values()) < self.capacity:
            open_ = [name for name in self.accounts if limits[name] < self.demand[name]]
            if not open_:
                break
            limits[min(open_, key=limits.__getitem__)] += 1
        return limits

    def schedule(self, limits):
        """End what has run its time, keep as many jobs as are wanted, and start what may start."""
        self.jobs = [
            each for each in self.jobs if not (each.running and self.chance.random() < 0.02)
        ]
        for name in self.accounts:
            mine = [each for each in self.jobs if each.account == name]
            for _ in range(len(mine), self.demand[name]):
                self.jobs.append(job(next(self.numbers), account=name, running=False))
            for each in [each for each in mine if not each.running][
                : len(mine) - self.demand[name]
            ]:
                self.jobs.remove(each)
        running = Counter(each.account for each in self.jobs if each.running)
        for each in [each for each in self.jobs if not each.running]:
            if running[each.account] < limits[each.account] and running.total() < self.capacity:
                running[each.account] += 1
                self.jobs.remove(each)
                self.jobs.append(Job(**{**vars(each), "running": True, "started": self.now}))

    def take_back(self, limits):
        """Carry out a plan and return it."""
        objects = [account(name, cpu=most) for name, most in limits.items()]
        plan = planned(objects, self.jobs, terms=self.terms, memory=self.memory, now=self.now)
        gone = {each.key for each in plan.ended}
        self.memory.keep(plan, self.now)
        self.jobs = [
            Job(**{**vars(each), "running": False, "started": 0}) if each.id in gone else each
            for each in self.jobs
        ]
        return plan


STEPS = 10_000 if thorough() else 1_000


@pytest.mark.parametrize("churn", [None, 3])
def test_random_steps_end_no_young_job_no_job_twice_and_never_too_many(churn):
    """A thousand steps of 15 s, ten thousand with `--thorough`."""
    terms = Terms(minimum_run_seconds=120, notice_seconds=30, churn=churn, interval_seconds=60)
    cluster = Cluster(5, terms)
    last, ends, warned = {}, [], {}
    for _ in range(STEPS):
        cluster.now += 15
        limits = cluster.decide()
        before = {each.id: each for each in cluster.jobs}
        running = Counter(each.account for each in cluster.jobs if each.running)
        plan = cluster.take_back(limits)
        for victim in plan.ended:
            (each,) = victim.jobs
            assert cluster.now - before[each.id].started >= terms.minimum_run_seconds
            assert cluster.now >= warned[each.id] + terms.notice_seconds
            assert cluster.now - last.get(each.id, 0) >= terms.minimum_run_seconds
            last[each.id] = cluster.now
            ends.append(cluster.now)
        for name, count in Counter(each.jobs[0].account for each in plan.ended).items():
            assert count <= running[name] - limits[name]  # all tasks are equal: the exact minimum
        kept = {victim.key for victim in [*plan.waiting, *plan.ended]}
        warned = {key: at for key, at in warned.items() if key in kept}
        warned.update(dict.fromkeys(keys(plan.warned), cluster.now))
        cluster.schedule(limits)
    assert len(ends) > STEPS / 50
    if churn is not None:
        most = max(sum(at <= other < at + 60 for other in ends) for at in ends)
        assert most == churn


def test_what_is_decided_is_used_after_the_notice_and_two_rounds():
    terms = Terms(notice_seconds=30)
    cluster = Cluster(7, terms, churn_of_demand=0.02)
    since, before = 0, {}
    met = 0
    for _ in range(STEPS):
        cluster.now += 15
        limits = cluster.decide()
        since = since + 1 if limits == before else 0
        before = limits
        cluster.take_back(limits)
        cluster.schedule(limits)
        if since * 15 >= terms.notice_seconds + 2 * 15:
            running = Counter(each.account for each in cluster.jobs if each.running)
            assert {name: running[name] for name in limits} == limits
            met += 1
    assert met > STEPS / 10


def test_few_more_tasks_end_than_the_least_number_that_would_do():
    """Jobs of unlike sizes: the youngest first is not the fewest."""
    chance = random.Random(3)
    ended = least = 0
    for _ in range(300):
        shapes = [(chance.randint(1, 4), 100 * chance.randint(1, 4)) for _ in range(3)]
        jobs = []
        for number in range(chance.randint(1, 10)):
            cpu, memory = chance.choice(shapes)
            jobs.append(job(number, cpu=cpu, memory=memory, started=chance.randint(1, 99)))
        limit = {
            "cpu": Fraction(chance.randint(0, 20)), "memory": Fraction(chance.randint(0, 2500) * MIB)
        }  # fmt: skip
        ended += len(to_stop(jobs, limit))
        least += fewest(jobs, limit)
    assert least > 300
    assert ended <= 1.1 * least


def fewest(jobs, limit):
    """The least number of jobs without which the rest is within a limit, by trying all."""
    return next(
        count
        for count in range(len(jobs) + 1)
        for gone in itertools.combinations(range(len(jobs)), count)
        if within([each for number, each in enumerate(jobs) if number not in gone], limit)
    )
