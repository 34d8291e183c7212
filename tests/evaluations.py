"""What is posted to be evaluated."""

import random

TENANTS, CLASSES = 700, 300


def long_evaluation(mode: str = "divisible") -> dict[str, object]:
    """A problem that takes seconds, perhaps more than an evaluation may."""
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
        "policy": {"name": "drfh", "mode": mode},
        "include": ["placements", "certificate", "properties"],
    }
