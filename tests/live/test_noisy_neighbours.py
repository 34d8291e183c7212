"""One key's evaluations never hold up what others ask for."""

import time
from concurrent.futures import ThreadPoolExecutor

from allocator_service.allocation.what_if.evaluations import SECONDS, STARTING_SECONDS
from tests.evaluations import long_evaluation

NOISY = 12


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
