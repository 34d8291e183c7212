"""docs/policies/choosing.md: its table is what the policies answer to its problem."""

import json
import re
from pathlib import Path

from policies import problem_from_document, solve

PAGE = Path(__file__).parents[3] / "docs" / "policies" / "choosing.md"


def test_the_table_is_what_the_policies_answer():
    text = PAGE.read_text()
    problem = json.loads(re.search(r"```json\n(.*?)```", text, re.DOTALL)[1])
    rows = re.findall(r"^\| `([a-z-]+)`( indivisible)? \| (\d[^\n]*)$", text, re.MULTILINE)
    assert len(rows) == 10
    for name, mode, cells in rows:
        policy = {"name": name} | ({"mode": mode.strip()} if mode else {})
        if name == "single-resource":
            policy["options"] = {"resource": "cpu"}
        parsed = problem_from_document(problem | {"policy": policy})
        answer = solve(parsed.problem, parsed.policy, mode=parsed.mode, options=parsed.options)
        told = re.findall(r"([\d.]+) \(([\d.]+)\)", cells)
        for (tasks, share), runs, has in zip(
            told, answer.tasks.tolist(), answer.tenant_share.tolist(), strict=True
        ):
            assert abs(float(tasks) - runs) <= 0.005, (name, told)
            assert abs(float(share) - has) <= 0.0005, (name, told)
