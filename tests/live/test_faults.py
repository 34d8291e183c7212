"""Processes are killed and messages lost; every accepted change is decided all the same."""

import os
import signal
import time

import redis

from launcher.processes import stop
from tests.live.test_main_job import opened, registered


def prepared(operator, slug):
    registered(operator, f"{slug}-u")
    pool = opened(operator, slug)
    operator.post(f"{pool}/servers/", {"name": "s", "capacity": {"cpu": 8, "memory": 8}})
    return pool


def changed(operator, pool, slug, name):
    answer = operator.post(
        f"{pool}/workloads/",
        {"tenant": f"{slug}-u", "name": name, "demand": {"cpu": 1, "memory": 1}},
    )
    return int(answer.headers["Pool-Generation"])


def test_a_burst_is_coalesced_and_the_last_change_wins(operator, decided):
    pool = prepared(operator, "burst")
    generations = [changed(operator, pool, "burst", f"w{number}") for number in range(40)]
    decision = decided("burst", generations[-1])
    assert decision["run"]["summary"]["workloads"] == 40
    runs = operator.pages(f"{pool}/runs/?limit=1000")
    assert len(runs) <= 20
    assert [run["status"] for run in runs] == ["succeeded"] * len(runs)


def test_a_killed_worker_is_replaced_and_its_work_done(service, operator, decided):
    pool = prepared(operator, "worker")
    os.killpg(service.processes["worker"].pid, signal.SIGKILL)
    service.processes["worker"].wait()
    generation = changed(operator, pool, "worker", "while-dead")
    time.sleep(1)
    service.start("worker")
    decision = decided("worker", generation, 30)
    assert decision["run"]["summary"]["workloads"] == 1


def test_a_killed_relay_loses_nothing(service, operator, decided):
    pool = prepared(operator, "relay")
    service.processes["relay"].kill()
    service.processes["relay"].wait()
    generation = changed(operator, pool, "relay", "while-dead")
    service.start("relay")
    assert decided("relay", generation)["run"]["summary"]["workloads"] == 1


def test_a_flushed_redis_loses_nothing(service, operator, decided):
    pool = prepared(operator, "flush")
    stop(service.processes["worker"], patience_seconds=20)
    generation = changed(operator, pool, "flush", "queued")
    time.sleep(1)  # the relay has published it by now
    socket, _, query = (
        service.environment["REDIS_URL"].removeprefix("redis+socket://").partition("?")
    )
    broker = redis.Redis(unix_socket_path=socket, db=int(query.rpartition("=")[2]))
    assert broker.llen("celery") >= 1
    broker.flushdb()
    service.start("worker")
    assert decided("flush", generation, 30)["run"]["summary"]["workloads"] == 1


def test_a_killed_web_process_keeps_what_it_accepted(service, operator, decided):
    pool = prepared(operator, "web")
    generation = changed(operator, pool, "web", "accepted")
    os.killpg(service.processes["web"].pid, signal.SIGKILL)
    service.processes["web"].wait()
    service.start("web")
    assert decided("web", generation)["run"]["summary"]["workloads"] == 1
