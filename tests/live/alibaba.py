"""Alibaba's GPU cluster of 2023 as the CSV that `import_nodes` and `import_workloads` read.

The trace names no users. The stated rule: a pod's tenant is its QoS class and, for the two large
classes, the CRC-32 of its name modulo 4: ls-0 to ls-3, be-0 to be-3, burstable, guaranteed. Pods of
one tenant, request and list of GPU models are one workload, whose tasks are their number.
"""

import csv
import io
import zlib
from collections import Counter

from tests.data import trace

GROUPS = 4
LARGE_CLASSES = ("LS", "BE")


def nodes_csv() -> str:
    """The nodes: milli-cores, MiB and GPUs as Kubernetes writes them, the GPU model as a label."""
    header = ["name", "capacity.cpu", "capacity.memory", "capacity.gpu", "labels.model"]
    return _csv(
        header,
        [
            [row["sn"], f"{row['cpu_milli']}m", f"{row['memory_mib']}Mi", row["gpu"], row["model"]]
            for row in _rows("openb_node_list_all_node.csv")
        ],
    )


def workloads_csv() -> str:
    """The pods of the list in which a third ask for certain models, grouped as stated above."""
    header = [
        "tenant", "name", "tasks", "demand.cpu", "demand.memory", "demand.gpu", "selector.model",
    ]  # fmt: skip
    pods = Counter(
        (
            tenant_of(row),
            row["cpu_milli"],
            row["memory_mib"],
            int(row["num_gpu"]) * int(row["gpu_milli"] or 0),
            "|".join(sorted(set(filter(None, row["gpu_spec"].split("|"))))),
        )
        for row in _rows("openb_pod_list_gpuspec33.csv")
    )
    return _csv(
        header,
        [
            [
                tenant,
                f"cpu{cpu}-mem{memory}-gpu{gpu}-{models.replace('|', '-') or 'any'}",
                tasks,
                f"{cpu}m",
                f"{memory}Mi",
                f"{gpu}m",
                models,
            ]
            for (tenant, cpu, memory, gpu, models), tasks in sorted(pods.items())
        ],
    )


def tenant_of(pod: dict[str, str]) -> str:
    """The tenant of a pod by the stated rule."""
    quality = pod["qos"].lower()
    if pod["qos"] not in LARGE_CLASSES:
        return quality
    return f"{quality}-{zlib.crc32(pod['name'].encode()) % GROUPS}"


def _rows(name: str) -> list[dict[str, str]]:
    with trace("alibaba-gpu-2023", name).open() as file:
        return list(csv.DictReader(file))


def _csv(header: list[str], rows: list[list[object]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([header, *rows])
    return text.getvalue()
