"""What each format's rows become, exactly, and what is refused, with its place and reason."""

from decimal import Decimal

import pytest

from allocator_service.core.errors import TooLarge, Unacceptable
from allocator_service.core.quantities import Resource
from allocator_service.imports import reading
from allocator_service.imports.kinds import read_nodes, read_workloads
from allocator_service.imports.rows import (
    NodeRow,
    Owner,
    Place,
    RefusedRow,
    SkippedRow,
    WorkloadRow,
)
from allocator_service.workloads.gangs import Gang, Piece
from tests.kueue_cases import CASES, pod_set, workload

LAB = [Resource("cpu", "core"), Resource("memory", "GiB"), Resource("gpu", "")]
NOBODY = Owner()


def nodes(content, file_format="csv", owner=NOBODY, resources=LAB):
    return read_nodes(content, file_format, resources, owner).rows


def workloads(content, file_format="csv", owner=NOBODY, resources=LAB):
    return read_workloads(content, file_format, resources, owner).rows


def only_error(row):
    assert isinstance(row, RefusedRow)
    (error,) = row.errors
    return error.pointer, error.code


def amounts(*texts):
    return [Decimal(text) for text in texts]


class TestCsv:
    def test_a_node_with_all_its_columns(self):
        (row,) = nodes(
            "name,contributed_by,count,capacity.cpu,capacity.memory,labels.zone\n"
            "rack,ada,3,500m,512Mi,a\n"
        )
        assert row == NodeRow(
            Place("line", 2), "rack", "ada", amounts("0.5", "0.5", "0"), {"zone": "a"}, 3
        )

    def test_a_workload_with_all_its_columns(self):
        (row,) = workloads(
            "tenant,name,demand.cpu,tasks,priority,selector.model\nada,train,4,7,-2,A10|T4\n"
        )
        assert (row.owner, row.name, row.demand) == ("ada", "train", amounts("4", "0", "0"))
        assert (row.tasks, row.priority, row.selector) == (7, -2, {"model": ["A10", "T4"]})

    def test_no_tasks_is_no_limit(self):
        (row,) = workloads("name,demand.cpu,tasks\nw,1,\n", owner=Owner("ada"))
        assert (row.owner, row.tasks) == ("ada", None)

    def test_lines_are_those_of_the_file_with_empty_ones_and_breaks_in_cells(self):
        rows = nodes('name,capacity.cpu\n\n"a\nb",1\nc,1\n')
        assert [str(row.place) for row in rows] == ["line 3", "line 5"]
        assert only_error(rows[0]) == ("/name", "field.text")

    def test_a_byte_order_mark_is_no_part_of_the_first_column(self):
        assert nodes("\ufeffname,capacity.cpu\nn,1\n")[0].name == "n"

    @pytest.mark.parametrize(
        ("cell", "code"),
        [
            ("NaN", "quantity.syntax"),
            ("inf", "quantity.syntax"),
            ("-1", "quantity.negative"),
            ("1e12", "quantity.too_large"),
            ("512MB", "quantity.syntax"),
            ("512 MiB", "quantity.syntax"),
            ("1/2", "quantity.syntax"),
        ],
    )
    def test_a_wrong_quantity_is_refused_with_its_line(self, cell, code):
        rows = nodes(f"name,capacity.memory\ngood,1\nbad,{cell}\n")
        assert isinstance(rows[0], NodeRow)
        assert str(rows[1].place) == "line 3"
        assert only_error(rows[1]) == ("/capacity/memory", code)

    def test_decimal_and_binary_units_differ(self):
        in_mb = [Resource("memory", "MB")]
        rows = nodes("name,capacity.memory\na,1Mi\nb,1M\n", resources=in_mb)
        assert [row.capacity for row in rows] == [amounts("1.048576"), amounts("1")]

    @pytest.mark.parametrize(
        ("row", "expected"),
        [
            ("n,1", ("", "row.cells")),
            (",1,1", ("/name", "field.blank")),
            ("n,1,0", ("/count", "field.range")),
            ("n,1,1.0", ("/count", "field.type")),
        ],
    )
    def test_a_wrong_row_is_refused(self, row, expected):
        assert only_error(nodes(f"name,capacity.cpu,count\n{row}\n")[0]) == expected

    @pytest.mark.parametrize(
        ("header", "code"),
        [
            ("name,capacity.disk", "resource.unknown"),
            ("name,capacity.cpu,colour", "import.column"),
            ("name,capacity.cpu,name", "import.column"),
            ("capacity.cpu", "import.column"),
            ("name", "import.column"),
            ("", "import.column"),
        ],
    )
    def test_a_wrong_header_refuses_the_file(self, header, code):
        with pytest.raises(Unacceptable) as caught:
            nodes(f"{header}\nn,1\n")
        assert caught.value.code == code

    def test_an_open_quote_refuses_the_file(self):
        with pytest.raises(Unacceptable, match="Line 2") as caught:
            nodes('name,capacity.cpu\n"n,1\n')
        assert caught.value.code == "import.csv"

    def test_a_workload_needs_a_tenant(self):
        assert only_error(workloads("name,demand.cpu\nw,1\n")[0]) == ("/tenant", "field.required")

    def test_more_rows_than_one_import_takes(self, monkeypatch):
        monkeypatch.setattr(reading, "MAX_ROWS", 2)
        assert len(nodes("name,capacity.cpu\n" + "n,1\n" * 2)) == 2
        with pytest.raises(TooLarge) as caught:
            nodes("name,capacity.cpu\n" + "n,1\n" * 3)
        assert caught.value.code == "import.too_many"


class TestFiles:
    def test_a_file_that_is_not_there(self, tmp_path):
        with pytest.raises(Unacceptable, match="No such file") as caught:
            reading.file_text(str(tmp_path / "none.csv"))
        assert caught.value.code == "import.file"

    def test_another_encoding_is_named_with_its_line(self, tmp_path):
        path = tmp_path / "latin.csv"
        path.write_bytes("name,labels.room\nn,Küche\n".encode("latin-1"))
        with pytest.raises(Unacceptable, match="line 2 has the byte 0xfc") as caught:
            reading.file_text(str(path))
        assert caught.value.code == "import.encoding"

    @pytest.mark.parametrize(
        ("content", "code"),
        [
            ("{", "import.json"),
            ("[]", "import.json"),
            ("[" * 100_000, "import.json"),
            ('{"items": [{"a": NaN}]}', "quantity.not_finite"),
            ('{"items": 3}', "import.shape"),
            ("{}", "import.shape"),
        ],
    )
    def test_what_is_not_what_the_command_prints(self, content, code):
        for file_format in ("kubernetes", "slurm"):
            with pytest.raises(Unacceptable) as caught:
                nodes(content, file_format)
            assert caught.value.code == code


def kubernetes_node(name="n1", labels=None, unschedulable=False, **allocatable):
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"unschedulable": True} if unschedulable else {},
        "status": {"allocatable": allocatable or {"cpu": "1"}},
    }


class TestKubernetesNodes:
    def test_quantities_are_converted_to_the_pools_units(self):
        item = kubernetes_node(labels={"zone": "a", "team": "ada"})
        item["status"]["allocatable"] = {
            "cpu": "3920m", "memory": "34359738368", "nvidia.com/gpu": "8", "pods": "110",
        }  # fmt: skip
        file = read_nodes({"items": [item]}, "kubernetes", LAB, Owner(label="team"))
        (row,) = file.rows
        assert row.capacity == amounts("3.92", "32", "8")
        assert (row.owner, row.draining, file.ignored) == ("ada", False, ["pods"])

    def test_kibibytes_beyond_twelve_digits_are_rounded_down_by_less_than_a_byte(self):
        (row,) = nodes({"items": [kubernetes_node(memory="32829301Ki")]}, "kubernetes")
        exact = Decimal(32829301) / 2**20
        assert 0 < exact - row.capacity[1] < Decimal(1) / 2**30

    def test_terabytes_are_read(self):
        (row,) = nodes({"items": [kubernetes_node(memory="6442450944Ki")]}, "kubernetes")
        assert row.capacity[1] == 6144

    def test_a_cordoned_node_is_draining(self):
        (row,) = nodes({"items": [kubernetes_node(unschedulable=True)]}, "kubernetes")
        assert row.draining is True

    def test_capacity_stands_in_where_nothing_is_allocatable(self):
        item = kubernetes_node()
        item["status"] = {"capacity": {"cpu": "4"}}
        assert nodes({"items": [item]}, "kubernetes")[0].capacity[0] == 4

    @pytest.mark.parametrize(
        ("item", "expected"),
        [
            (kubernetes_node(cpu="-1"), ("/status/allocatable/cpu", "quantity.negative")),
            (kubernetes_node(cpu="one"), ("/status/allocatable/cpu", "quantity.syntax")),
            (kubernetes_node(name=""), ("/metadata/name", "field.blank")),
            (
                kubernetes_node(**{"a.com/gpu": "1", "b.com/gpu": "1"}),
                ("/status/allocatable/b.com~1gpu", "resource.ambiguous"),
            ),
            ({"kind": "Pod"}, ("/kind", "import.shape")),
            (3, ("", "import.shape")),
        ],
    )
    def test_a_wrong_item_is_refused_with_its_index(self, item, expected):
        rows = nodes({"items": [kubernetes_node(), item]}, "kubernetes")
        assert str(rows[1].place) == "item 1"
        assert only_error(rows[1]) == expected


def pod(name, owner=None, phase="Running", namespace="ada", spec=None, labels=None, **requests):
    references = [{"kind": "ReplicaSet", "name": owner, "controller": True}] if owner else []
    return {
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "ownerReferences": references,
            "labels": labels or {},
        },
        "spec": {"containers": [container(**requests)], **(spec or {})},
        "status": {"phase": phase},
    }  # fmt: skip


def container(**requests):
    return {"resources": {"requests": requests}}


def pods(*items, owner=NOBODY):
    return workloads({"items": list(items)}, "kubernetes", owner)


class TestKubernetesPods:
    def test_pods_of_one_owner_are_one_workload(self):
        rows = pods(*(pod(f"web-{n}", "web", cpu="250m", memory="1Gi") for n in range(3)))
        assert [(row.owner, row.name, row.tasks) for row in rows] == [("ada", "web", 3)]
        assert rows[0].demand == amounts("0.25", "1", "0")

    def test_other_requests_or_selectors_are_other_workloads(self):
        rows = pods(
            pod("a", "web", cpu="2"),
            pod("b", "web", cpu="1"),
            pod("c", "web", cpu="1", spec={"nodeSelector": {"zone": "a"}}),
        )
        told = {(row.name, row.demand[0], str(row.selector)) for row in rows}
        assert told == {
            ("web", 1, "{}"), ("web-2", 1, "{'zone': 'a'}"), ("web-3", 2, "{}"),
        }  # fmt: skip

    def test_names_do_not_depend_on_the_order_of_the_pods(self):
        first, second = pod("a", "web", cpu="2"), pod("b", "web", cpu="1")
        told = [
            {(row.name, row.demand[0]) for row in pods(*order)}
            for order in ([first, second], [second, first])
        ]
        assert told[0] == told[1]

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_finished_pods_are_skipped(self, phase):
        (row,) = pods(pod("done", phase=phase, cpu="1"))
        assert row == SkippedRow(Place("item", 0), "done", f"The pod has finished: {phase}.")

    def test_init_containers_count_when_they_need_more(self):
        spec = {"initContainers": [container(cpu="3"), container(cpu="1", memory="5Gi")]}
        (row,) = pods(pod("a", cpu="2", memory="1Gi", spec=spec))
        assert row.demand == amounts("3", "5", "0")

    def test_a_sidecar_runs_beside_what_comes_after_it(self):
        sidecar = {**container(cpu="1"), "restartPolicy": "Always"}
        spec = {"initContainers": [sidecar, container(cpu="4")], "overhead": {"cpu": "500m"}}
        (row,) = pods(pod("a", cpu="2", spec=spec))
        assert row.demand[0] == Decimal("5.5")  # 1 + 4 while starting, above 1 + 2, and overhead

    def test_required_affinity_becomes_a_selector(self):
        terms = [{"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["T4", "A10"]}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        (row,) = pods(pod("a", cpu="1", spec={"affinity": {"nodeAffinity": required}}))
        assert row.selector == {"gpu": ["T4", "A10"]}
        terms[0]["matchExpressions"][0]["operator"] = "NotIn"
        (row,) = pods(pod("a", cpu="1", spec={"affinity": {"nodeAffinity": required}}))
        assert only_error(row)[1] == "selector.unsupported"

    def test_a_label_or_an_option_names_the_tenant_instead_of_the_namespace(self):
        assert pods(pod("a", cpu="1"), owner=Owner("bob"))[0].owner == "bob"
        labelled = pod("a", cpu="1", labels={"team": "eve"})
        assert pods(labelled, owner=Owner(label="team"))[0].owner == "eve"
        (row,) = pods(pod("a", cpu="1"), owner=Owner(label="team"))
        assert only_error(row) == ("/metadata", "field.required")

    def test_a_pod_that_requests_nothing_is_refused(self):
        assert only_error(pods(pod("a"))[0]) == ("/spec", "demand.zero")


def grouped(group, *items, label=False):
    for item in items:
        if label:
            item["metadata"]["labels"] = {"kueue.x-k8s.io/pod-group-name": group}
        else:
            item["metadata"]["annotations"] = {"kueue.x-k8s.io/workload": group}
    return items


def pieces(*kinds):
    return Gang(tuple(Piece(count, {"cpu": Decimal(cpu)}) for count, cpu in kinds))


class TestKueue:
    @pytest.mark.parametrize("case", CASES)
    def test_an_import_makes_the_gangs_of_pod_sets_that_the_agent_makes(self, case):
        items, expected = CASES[case]
        found = []
        for row in pods(*items):
            if isinstance(row, WorkloadRow):
                single = [(1, int(row.demand[0]))]
                kinds = [(each.count, int(each.demand["cpu"])) for each in row.gang.pieces]
                found.append((row.tasks, tuple(sorted(kinds or single))))
        assert sorted(found) == expected

    @pytest.mark.parametrize("label", [False, True])
    def test_pods_of_one_workload_are_a_task_of_several_pieces(self, label):
        items = [pod(f"p{n}", "train", cpu="2") for n in range(3)]
        file = read_workloads(
            {"items": list(grouped("w1", *items, label=label))}, "kubernetes", LAB, NOBODY
        )
        (row,) = file.rows
        assert (row.name, row.tasks, row.demand) == ("train", 1, amounts("6", "0", "0"))
        assert row.gang == pieces((3, 2))
        (single,) = file.by_kinds(0)
        assert (single.name, single.tasks, single.demand) == ("train", 3, amounts("2", "0", "0"))
        assert single.gang == Gang()
        assert [row.gang for row in file.by_kinds(1)] == [pieces((3, 2))]

    def test_gangs_of_one_kind_stay_where_two_kinds_are_too_many(self):
        items = [
            *grouped("w1", pod("a", "train", cpu="2"), pod("b", "train", cpu="2")),
            *grouped("w2", pod("h", "ray", cpu="4"), pod("w", "ray", cpu="1")),
        ]
        file = read_workloads({"items": items}, "kubernetes", LAB, NOBODY)
        told = [(row.name, row.tasks, row.gang) for row in file.by_kinds(1)]
        assert sorted(told, key=lambda row: row[0]) == [
            ("ray", 1, Gang()), ("ray-2", 1, Gang()), ("train", 1, pieces((2, 2))),
        ]  # fmt: skip

    def test_equal_workloads_of_one_controller_are_tasks_of_one_workload(self):
        items = [
            *grouped("w1", pod("a", "train", cpu="2"), pod("b", "train", cpu="2")),
            *grouped("w2", pod("c", "train", cpu="2"), pod("d", "train", cpu="2")),
            *grouped("w3", pod("e", "train", cpu="1"), pod("f", "train", cpu="2")),
        ]
        told = [(row.name, row.tasks, row.gang) for row in pods(*items)]
        assert sorted(told, key=lambda row: row[0]) == [
            ("train", 1, pieces((1, 1), (1, 2))), ("train-2", 2, pieces((2, 2))),
        ]  # fmt: skip
        again = [(row.name, row.tasks, row.gang) for row in pods(*reversed(items))]
        assert sorted(again, key=lambda row: row[0]) == sorted(told, key=lambda row: row[0])

    def test_pods_of_several_controllers_are_named_after_what_starts_together(self):
        items = grouped("set", pod("h", "head", cpu="4"), pod("w", "workers", cpu="1"))
        (row,) = pods(*items)
        assert (row.name, row.gang) == ("set", pieces((1, 1), (1, 4)))

    def test_groups_of_two_namespaces_are_two(self):
        items = [
            {**each, "metadata": {**each["metadata"], "namespace": namespace}}
            for namespace in ("x", "y")
            for each in grouped("w", pod("a", "train", cpu="2"), pod("b", "train", cpu="2"))
        ]
        file = read_workloads({"items": items}, "kubernetes", LAB, Owner(slug="lab"))
        assert [(row.name, row.tasks, row.gang) for row in file.rows] == [
            ("train", 2, pieces((2, 2)))
        ]

    def test_a_file_with_pods_and_kueues_workloads_is_refused(self):
        items = [*grouped("w", pod("a", cpu="1")), workload(pod_set("main", 1, 1))]
        with pytest.raises(Unacceptable) as caught:
            read_workloads({"items": items}, "kubernetes", LAB, NOBODY)
        assert caught.value.code == "import.both_kinds"

    def test_a_pod_outside_of_groups_states_nothing_about_pieces(self):
        file = read_workloads({"items": [pod("a", cpu="1")]}, "kubernetes", LAB, NOBODY)
        assert (file.rows[0].gang, file.by_kinds) == (None, None)

    @pytest.mark.parametrize(
        ("item", "error"),
        [
            (
                workload({**pod_set("main", 4, 2), "count": "4"}),
                ("/spec/podSets/0/count", "field.type"),
            ),
            (workload(pod_set("main", -1, 2)), ("/spec/podSets/0/count", "field.range")),
            (workload(pod_set("main", 4, 0)), ("/spec/podSets", "demand.zero")),
            ({**workload(), "spec": {"podSets": {}}}, None),
            ({**workload(), "spec": {"podSets": "x"}}, ("/spec/podSets", "import.shape")),
            (
                workload(pod_set("main", 1, 1), conditions="x"),
                ("/status/conditions", "import.shape"),
            ),
        ],
    )
    def test_a_workload_that_cannot_be_read_is_refused(self, item, error):
        (row,) = pods(item)
        if error is None:
            assert isinstance(row, SkippedRow)
        else:
            assert only_error(row) == error


def slurm_node(**more):
    return {"name": "n1", "cpus": 64, "real_memory": 262144, "state": ["IDLE"], **more}


class TestSlurm:
    def test_a_node_of_scontrol(self):
        node = slurm_node(gres="gpu:a100:4(S:0-1),bandwidth:lustre:no_consume:4G",
                          features=["ib", "avx512"])  # fmt: skip
        file = read_nodes({"nodes": [node]}, "slurm", LAB, NOBODY)
        (row,) = file.rows
        assert row.capacity == amounts("64", "256", "4")
        assert row.labels == {"ib": "true", "avx512": "true", "gres.gpu": "a100"}
        assert (row.draining, file.ignored) == (False, ["bandwidth"])

    def test_memory_is_mebibytes_in_whatever_unit_the_pool_has(self):
        in_mb = [Resource("cpu", "core"), Resource("memory", "MB")]
        (row,) = nodes({"nodes": [slurm_node()]}, "slurm", resources=in_mb)
        assert row.capacity[1] == Decimal("274877.906944")

    @pytest.mark.parametrize(
        ("state", "draining"),
        [
            (["IDLE", "DRAIN"], True),
            ("idle+drain", True),
            (["DOWN"], True),
            ("MIXED", False),
            (["ALLOCATED"], False),
        ],
    )
    def test_states(self, state, draining):
        (row,) = nodes({"nodes": [slurm_node(state=state)]}, "slurm")
        assert row.draining is draining

    def test_several_generic_resources_add_up(self):
        (row,) = nodes({"nodes": [slurm_node(gres="gpu:a100:2,gpu:t4:1,gpu")]}, "slurm")
        assert row.capacity[2] == 4

    def test_a_generic_resource_that_counts_must_be_readable(self):
        (row,) = nodes({"nodes": [slurm_node(gres="gpu:a:b:4G")]}, "slurm")
        assert only_error(row) == ("/gpu", "quantity.syntax")

    def test_sinfo_tells_a_node_once_for_each_partition(self):
        group = {
            "nodes": {"nodes": ["n1", "n2"]},
            "cpus": {"minimum": 8, "maximum": 8},
            "memory": {"minimum": 16384, "maximum": 16384},
            "features": {"total": "ib,fast"},
            "gres": {"total": "gpu:t4:2"},
            "node": {"state": ["IDLE", "DRAIN"]},
        }
        rows = nodes({"sinfo": [group, group]}, "slurm")
        assert [row.name for row in rows] == ["n1", "n2"]
        assert rows[0].capacity == amounts("8", "16", "2")
        assert (rows[1].labels["fast"], rows[1].draining) == ("true", True)

    def test_nodes_that_differ_in_a_group_of_sinfo_are_refused(self):
        group = {
            "nodes": {"nodes": ["n1"]},
            "cpus": {"minimum": 8, "maximum": 16},
            "memory": {"minimum": 1, "maximum": 1},
        }
        (row,) = nodes({"sinfo": [group]}, "slurm")
        assert only_error(row) == ("/cpus", "field.type")
        assert "8 to 16" in row.errors[0].detail

    def test_numbers_in_objects_are_read(self):
        (row,) = nodes({"nodes": [slurm_node(cpus={"set": True, "number": 12})]}, "slurm")
        assert row.capacity[0] == 12


def test_more_pods_than_a_gang_has_are_single_tasks():
    (row,) = workloads({"items": [workload(pod_set("main", 10_001, 1))]}, "kubernetes")
    assert (row.tasks, row.gang) == (10_001, Gang())


def test_pods_of_several_tenants_do_not_start_together():
    items = [workload(pod_set("main", 1, 1), name="w") for _ in range(2)]
    for item, team in zip(items, ("a", "b"), strict=True):
        item["metadata"]["labels"] = {"team": team}
    rows = workloads({"items": items}, "kubernetes", Owner(label="team"))
    assert [(row.owner, row.tasks) for row in rows] == [("a", 1), ("b", 1)]
