"""What each format of usage becomes, exactly, and what is refused or left out, with its reason."""

import gzip
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from allocator_service.core.errors import Unacceptable
from allocator_service.core.quantities import Resource
from allocator_service.imports.kinds import read_usage
from allocator_service.imports.rows import Owner, Place, RefusedRow, SkippedRow, UsageRow
from tests.data import trace

LAB = [Resource("cpu", "core"), Resource("memory", "GiB"), Resource("gpu", "")]
NASA = ("pwa", "NASA-iPSC-1993-3.1-cln.swf.gz")
TEN, ELEVEN = datetime(2026, 10, 5, 10, tzinfo=UTC), datetime(2026, 10, 5, 11, tzinfo=UTC)


def usage(content, file_format="csv", owner=None, resources=LAB, **options):
    return read_usage(content, file_format, resources, owner or Owner(), **options)


def amounts(*texts):
    return [Decimal(text) for text in texts]


def only_error(row):
    assert isinstance(row, RefusedRow)
    (error,) = row.errors
    return error.pointer, error.code


class TestCsv:
    HEADER = "id,source,tenant,start,end,resources.cpu,resources.memory\n"

    def test_a_row_with_all_its_columns(self):
        (row,) = usage(
            self.HEADER + "j1,site,ada,2026-10-05T12:00:00+02:00,2026-10-05T11:00:00Z,500m,4Gi\n"
        ).rows
        assert row == UsageRow(
            Place("line", 2), "j1", "ada", "site", amounts("0.5", "4", "0"), TEN, ELEVEN
        )

    def test_what_a_row_does_not_say_is_as_told(self):
        (row,) = usage(
            "id,start,end,resources.cpu\nj,2026-10-05T10:00:00,2026-10-05T11:00:00,1\n",
            owner=Owner("ada"),
        ).rows
        assert (row.owner, row.source, row.start) == ("ada", "csv", TEN)

    def test_a_wrong_row_says_why(self):
        rows = usage(
            self.HEADER + "j1,,ada,yesterday,2026-10-05T11:00:00Z,1,1\nj2,,,a,b,1,1\n"
        ).rows
        assert [only_error(row) for row in rows] == [
            ("/start", "timestamp.syntax"),
            ("/tenant", "field.required"),
        ]


class TestSacct:
    HEADER = "JobIDRaw|Account|User|Start|End|AllocTRES\n"
    JOB = "4711|Bio_Lab|ada|2026-10-05T10:00:00|2026-10-05T11:00:00|"

    def read(self, lines, **options):
        return usage(self.HEADER + lines, "sacct", **options)

    def test_a_job_with_memory_and_gpus_of_a_model(self):
        file = self.read(self.JOB + "billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=1536M,node=1\n")
        assert file.rows == [
            UsageRow(
                Place("line", 2), "4711@2026-10-05T10:00:00Z", "bio-lab", "sacct",
                amounts("8", "1.5", "2"), TEN, ELEVEN,
            )
        ]  # fmt: skip
        assert file.ignored == ["billing", "node"]

    def test_a_model_alone_counts_as_its_kind(self):
        (row,) = self.read(self.JOB + "cpu=1,gres/gpu:a100=2\n").rows
        assert row.amounts == amounts("1", "0", "2")

    def test_another_column_names_the_tenant(self):
        (row,) = self.read(self.JOB + "cpu=1\n", owner=Owner(label="User")).rows
        assert row.owner == "ada"

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("4711.batch|a|b|2026-10-05T10:00:00|2026-10-05T11:00:00|cpu=1", "A step"),
            ("4711|a|b|Unknown|Unknown|", "never ran"),
            ("4711|a|b|2026-10-05T10:00:00|2026-10-05T10:00:00|", "never ran"),
            ("4711|a|b|2026-10-05T10:00:00|Unknown|cpu=1", "not ended"),
        ],
    )
    def test_what_is_no_use_is_skipped(self, line, reason):
        (row,) = self.read(line + "\n").rows
        assert isinstance(row, SkippedRow)
        assert reason in row.reason

    def test_wrong_rows_and_a_wrong_file(self):
        rows = self.read(self.JOB + "cpu\n" + self.JOB + "cpu=1|x\n").rows
        assert [only_error(row) for row in rows] == [
            ("/AllocTRES", "import.shape"),
            ("", "row.cells"),
        ]
        with pytest.raises(Unacceptable, match="lacks the columns Start, End"):
            usage("JobIDRaw|Account|AllocTRES\n", "sacct")


class TestKubernetes:
    POD = {
        "kind": "Pod",
        "metadata": {"name": "train-1", "namespace": "ada", "uid": "7f0c"},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "500m", "memory": "2Gi"}}}]},
        "status": {
            "phase": "Succeeded",
            "startTime": "2026-10-05T10:00:00Z",
            "containerStatuses": [
                {"state": {"terminated": {"finishedAt": "2026-10-05T10:30:00Z"}}},
                {"state": {"terminated": {"finishedAt": "2026-10-05T11:00:00Z"}}},
            ],
        },
    }

    def test_a_finished_pod_used_what_it_requested(self):
        (row,) = usage({"items": [self.POD]}, "kubernetes").rows
        assert row == UsageRow(
            Place("item", 0), "7f0c", "ada", "kubernetes", amounts("0.5", "2", "0"), TEN, ELEVEN
        )

    def test_others_are_skipped(self):
        running = self.POD | {"status": {"phase": "Running"}}
        evicted = self.POD | {"status": {"phase": "Failed"}}
        rows = usage({"items": [running, evicted]}, "kubernetes").rows
        assert [row.reason for row in rows] == [
            "The pod has not ended: Running.",
            "The pod has no start or no end: it never ran.",
        ]


class TestSwf:
    TRACE = (
        "; UnixStartTime: 1791194400\n"
        "1 0 3600 60 4 -1 1048576 -1 -1 -1 1 7 2 -1 -1 -1 -1 -1\n"
        "2 0 -1 -1 4 -1 -1 -1 -1 -1 1 7 2 -1 -1 -1 -1 -1\n"
        "3 10 -1 5 -1 -1 -1 8 -1 -1 1 7 2 -1 -1 -1 -1 -1\n"
    )

    def test_jobs_start_after_their_wait_and_count_their_processors(self):
        first, second, third = usage(self.TRACE, "swf").rows
        assert first == UsageRow(
            Place("line", 2), "1", "user-7", "swf", amounts("4", "4", "0"),
            TEN + timedelta(hours=1), TEN + timedelta(hours=1, minutes=1),
        )  # fmt: skip
        assert isinstance(second, SkippedRow)
        assert (third.amounts, third.start) == (amounts("8", "0", "0"), TEN + timedelta(seconds=10))

    def test_it_begins_when_it_is_told_and_names_tenants_by_another_field(self):
        first = usage(self.TRACE, "swf", owner=Owner(label="group"), begin=TEN).rows[0]
        assert (first.owner, first.start) == ("group-2", TEN + timedelta(hours=1))

    def test_it_refuses(self):
        assert only_error(usage(self.TRACE + "4 x\n", "swf").rows[-1]) == ("", "row.cells")
        with pytest.raises(Unacceptable, match="UnixStartTime"):
            usage("1 0\n", "swf")
        with pytest.raises(Unacceptable, match="got colour"):
            usage(self.TRACE, "swf", owner=Owner(label="colour"))

    @pytest.mark.data
    def test_a_published_trace_is_read_whole(self):
        rows = usage(gzip.decompress(trace(*NASA).read_bytes()).decode(), "swf").rows
        assert len(rows) == 18_239
        jobs = [row for row in rows if isinstance(row, UsageRow)]
        assert not [row for row in rows if isinstance(row, RefusedRow)]
        assert len({row.owner for row in jobs}) == 69
        assert jobs[0].start == datetime(1993, 10, 1, 7, 0, 3, tzinfo=UTC)
        assert max(row.amounts[0] for row in jobs) == 128
