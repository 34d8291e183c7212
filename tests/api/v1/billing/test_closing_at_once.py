"""Sixteen operators close one month at once: one of them has closed it, all get the same document."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from allocator_service.billing.models import Closing
from tests.api.v1.billing.conftest import MARCH, POOL

pytestmark = pytest.mark.django_db(transaction=True)

CLOSERS = 16


def test_one_of_sixteen_closings_is_answered_201_and_the_others_200(march, operator):
    together = Barrier(CLOSERS)

    def close(_):
        together.wait()
        try:
            answer = operator.post(f"{POOL}/statements/", {"month": MARCH})
            return answer.status_code, answer.content
        finally:
            connection.close()

    with ThreadPoolExecutor(CLOSERS) as threads:
        answers = list(threads.map(close, range(CLOSERS)))
    assert Counter(status for status, _ in answers) == {201: 1, 200: CLOSERS - 1}
    assert len({content for _, content in answers}) == 1
    assert Closing.objects.count() == 1
