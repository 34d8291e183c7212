"""Reasons for which workloads get no more read the same in a terminal as on pages."""

import pytest

from allocator_client.cli.words import reason_text as client_text
from allocator_service.workloads import reason_texts
from allocator_service.workloads.reason_texts import OPERATOR, reason_text

REASONS = [
    *reason_texts._TEXTS, "resource:cpu", "limit:tenant", "limit:workload", "limit:group:ml",
]  # fmt: skip


@pytest.mark.parametrize("reason", REASONS)
def test_the_command_line_has_the_sentences_of_the_service(reason):
    assert client_text(reason) == reason_text(reason, OPERATOR)
