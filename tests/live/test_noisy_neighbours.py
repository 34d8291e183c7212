"""One key's evaluations never hold up what others ask for."""

import random
import time
from concurrent.futures import ThreadPoolExecutor

from allocator_service.allocation.what_if.evaluations import SECONDS, STARTING_SECONDS

NOISY = 12
TENANTS, CLASSES = 700, 300


def long_evaluation() -> dict[str, object]:
    """Takes seconds, perhaps more than it may."""
    chance = random.Random(7)
    resources = ["cpu", "memory", "disk"]

    def amounts(most: int) -> dict[str, float]:
        return {name: chance.randint(1, most * 1000) / 1000 for name in resources}

    return {
        "resources": resources,
        "servers": [{"capacity": amounts(64)} for _ in range(CLASSES)],
        "tenants": [{"name": f"t{n}"} for n in range(TENANTS)],
        "workloads": [
            {"tenant": f"t{n}", "name": "w", "demand": amounts(8)} for n in range(TENANTS)
        ],
        "policy": {"name": "drfh"},
        "include": ["placements", "certificate", "properties"],
    }


def test_twelve_evaluations_of_one_key_at_once_delay_nobody(service):
    noisy, other = service.client("operator", "noisy"), service.client("operator", "other")
    body = long_evaluation()

    def evaluate(_: int) -> tuple[int, str, float]:
        began = time.perf_counter()
        answer = noisy.request("POST", "/api/v1/evaluations/", body)
        code = "" if answer.status == 200 else answer.body["code"]
        return answer.status, code, time.perf_counter() - began

    reads: list[float] = []
    with ThreadPoolExecutor(NOISY) as threads:
        asked = [threads.submit(evaluate, number) for number in range(NOISY)]
        while not all(each.done() for each in asked):
            began = time.perf_counter()
            assert other.get("/api/v1/pools/").status == 200
            reads.append(time.perf_counter() - began)
            time.sleep(0.05)
        answers = [each.result() for each in asked]
    refused = [
        answer for answer in answers if answer[1] in ("evaluation.too_many", "evaluation.busy")
    ]
    assert len(refused) >= NOISY // 2
    computed = [answer for answer in answers if answer not in refused]
    assert computed
    assert {code for _, code, _ in computed} <= {"", "evaluation.timeout"}
    # A read that waited for an evaluation would take as long as it: a slow machine is slow at both.
    assert max(reads) < min(seconds for *_, seconds in computed)
    assert max(seconds for *_, seconds in answers) < STARTING_SECONDS + SECONDS
