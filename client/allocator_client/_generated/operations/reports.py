"""Usage, lending, sharing degrees and money over any interval.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from datetime import datetime
from typing import Literal

from allocator_client._generated.documents.reports import (
    BillingDocument,
    FairnessDocument,
    LendingDocument,
    SharingDegreeDocument,
    UtilizationDocument,
)
from allocator_client.answers import Answer, Download
from allocator_client.transport import Transport, path_part


class Reports(Transport):
    """Usage, lending, sharing degrees and money over any interval."""

    def pools_reports_billing_show(
        self,
        pool: str,
        *,
        from_: str | datetime | None = None,
        to: str | datetime | None = None,
        tenant: str | None = None,
        group: str | None = None,
        step: Literal["P1M"] | None = None,
    ) -> Answer[BillingDocument]:
        """Report what each tenant was billed, and reconcile it with the ledger.

        For each month, tenant and resource, `ledger` = `statements` + `not_yet_billed` +
        `not_billable`, to the last digit. The period is widened to whole months of the pool's time
        zone, at most 36 (422 `report.too_long`); open months are computed as of now. `group` reports
        the sum of a group and the tenants below it at the end of each month, to operator and billing
        keys. A tenant key sees itself only, in a transparent pool too. The report stays readable after
        the pool is retired.

        Parameters
        ----------
        from_
            By default 7 days before `to`.
        to
            Now by default, and at most now.
        tenant
            The tenant with this slug only; 404 `tenant.not_found` if there is none.
        group
            This group only: its sum and the tenants below it. An unknown group is 404
            `group.not_found`; together with `tenant` it is 400 `report.one_of`.
        step
            Always months.
        """
        return self._read(
            f"/api/v1/pools/{path_part(pool)}/reports/billing/",
            {"from": from_, "to": to, "tenant": tenant, "group": group, "step": step},
        )

    def pools_reports_billing_show_as(
        self,
        pool: str,
        *,
        format: Literal["csv", "ndjson", "svg"],
        from_: str | datetime | None = None,
        to: str | datetime | None = None,
        tenant: str | None = None,
        group: str | None = None,
        step: Literal["P1M"] | None = None,
    ) -> Download:
        """`pools_reports_billing_show` as a file."""
        return self._file(
            f"/api/v1/pools/{path_part(pool)}/reports/billing/",
            {
                "from": from_,
                "to": to,
                "tenant": tenant,
                "group": group,
                "step": step,
                "format": format,
            },
        )

    def pools_reports_fairness_show(
        self,
        pool: str,
        *,
        from_: str | datetime | None = None,
        to: str | datetime | None = None,
        tenant: str | None = None,
        step: str | None = None,
    ) -> Answer[FairnessDocument]:
        """Report each tenant's weighted dominant share, Jain's index over them, and who would envy whom.

        `envy` lists the worst 100 pairs and `envy_pairs` counts all. With `tenant`, only that tenant's
        share and pairs are listed, while the index and the count stay those of the whole pool. A tenant
        key can read it in a transparent pool only, with the others under pseudonyms; elsewhere it gets
        404 `report.not_found`. An empty period, or one of more than 1,000 intervals, is 400
        `report.period`; more than 200,000 values are 422 `report.too_long`.

        Parameters
        ----------
        from_
            Inclusive; by default 7 days before `to`.
        to
            Exclusive; now by default, and at most now.
        tenant
            This tenant only: its slug, or the pseudonym by which a tenant key knows it; any
            other text is 404 `tenant.not_found`.
        step
            Cuts the period into at most 1000 intervals, in the pool's time zone.
        """
        return self._read(
            f"/api/v1/pools/{path_part(pool)}/reports/fairness/",
            {"from": from_, "to": to, "tenant": tenant, "step": step},
        )

    def pools_reports_fairness_show_as(
        self,
        pool: str,
        *,
        format: Literal["csv", "ndjson", "svg"],
        from_: str | datetime | None = None,
        to: str | datetime | None = None,
        tenant: str | None = None,
        step: str | None = None,
    ) -> Download:
        """`pools_reports_fairness_show` as a file."""
        return self._file(
            f"/api/v1/pools/{path_part(pool)}/reports/fairness/",
            {"from": from_, "to": to, "tenant": tenant, "step": step, "format": format},
        )

    def pools_reports_lending_show(
        self,
        pool: str,
        *,
        from_: str | datetime | None = None,
        to: str | datetime | None = None,
        tenant: str | None = None,
        step: str | None = None,
        group: str | None = None,
    ) -> Answer[LendingDocument]:
        """Report who ran on whose servers, and what every two tenants lent each other.

        An `owner` of null is the pool itself or not known: reported usage does not state on which
        servers it ran. A tenant key sees the flows from and to itself, in a transparent pool all of
        them, with the others under pseudonyms. `group` reports the sum of a group, its children and
        the flows between them, by the tree as it was at each instant, to operator, billing and
        group keys. An empty period, or one of more than 1,000 intervals, is 400 `report.period`;
        more than 200,000 values are 422 `report.too_long`.

        Parameters
        ----------
        from_
            Inclusive; by default 7 days before `to`.
        to
            Exclusive; now by default, and at most now.
        tenant
            This tenant only: its slug, or the pseudonym by which a tenant key knows it; any
            other text is 404 `tenant.not_found`.
        step
            Cuts the period into at most 1000 intervals, in the pool's time zone.
        group
            This group only: its sum and its children. An unknown group is 404
            `group.not_found`; together with `tenant` it is 400 `report.one_of`.
        """
        return self._read(
            f"/api/v1/pools/{path_part(pool)}/reports/lending/",
            {"from": from_, "to": to, "tenant": tenant, "step": step, "group": group},
        )

    def pools_reports_lending_show_as(
        self,
        pool: str,
        *,
        format: Literal["csv", "ndjson", "svg"],
        from_: str | datetime | None = None,
        to: str | datetime | None = None,
        tenant: str | None = None,
        step: str | None = None,
        group: str | None = None,
    ) -> Download:
        """`pools_reports_lending_show` as a file."""
        return self._file(
            f"/api/v1/pools/{path_part(pool)}/reports/lending/",
            {
                "from": from_,
                "to": to,
                "tenant": tenant,
                "step": step,
                "group": group,
                "format": format,
            },
        )

    def pools_reports_sharing_degree_show(
        self,
        pool: str,
        *,
        from_: str | datetime | None = None,
        to: str | datetime | None = None,
        tenant: str | None = None,
        step: str | None = None,
        group: str | None = None,
    ) -> Answer[SharingDegreeDocument]:
        """Report what each tenant used, beside what it would have used alone in its part of the pool.

        The sharing degree is `used` / `alone` per resource; `min` is the least of them, and below 1 the
        tenant lost by sharing. A ratio that does not exist is null with a reason. In a pool with
        clusters, JSON has the use of each in `clusters`. A tenant key sees itself, and in a transparent
        pool the others under pseudonyms. `group` reports the sum of a group and then its children, by
        the tree as it was at each instant, to operator, billing and group keys. An empty period, or one
        of more than 1,000 intervals, is 400 `report.period`; more than 200,000 values are 422
        `report.too_long`.

        Parameters
        ----------
        from_
            Inclusive; by default 7 days before `to`.
        to
            Exclusive; now by default, and at most now.
        tenant
            This tenant only: its slug, or the pseudonym by which a tenant key knows it; any
            other text is 404 `tenant.not_found`.
        step
            Cuts the period into at most 1000 intervals, in the pool's time zone.
        group
            This group only: its sum and its children. An unknown group is 404
            `group.not_found`; together with `tenant` it is 400 `report.one_of`.
        """
        return self._read(
            f"/api/v1/pools/{path_part(pool)}/reports/sharing-degree/",
            {"from": from_, "to": to, "tenant": tenant, "step": step, "group": group},
        )

    def pools_reports_sharing_degree_show_as(
        self,
        pool: str,
        *,
        format: Literal["csv", "ndjson", "svg"],
        from_: str | datetime | None = None,
        to: str | datetime | None = None,
        tenant: str | None = None,
        step: str | None = None,
        group: str | None = None,
    ) -> Download:
        """`pools_reports_sharing_degree_show` as a file."""
        return self._file(
            f"/api/v1/pools/{path_part(pool)}/reports/sharing-degree/",
            {
                "from": from_,
                "to": to,
                "tenant": tenant,
                "step": step,
                "group": group,
                "format": format,
            },
        )

    def pools_reports_utilization_show(
        self,
        pool: str,
        *,
        from_: str | datetime | None = None,
        to: str | datetime | None = None,
        tenant: str | None = None,
        step: str | None = None,
        group: str | None = None,
    ) -> Answer[UtilizationDocument]:
        """Report how much of the contributed capacity was used, and how much was idle.

        Draining servers count as capacity. In a pool with clusters, JSON has `clusters`, which divide
        both. With `tenant`, `used` is that tenant's, and `capacity` stays the whole pool's. With
        `group`, `used` is that group's by the tree as it was at each instant, and its children are
        listed; operator, billing and group keys only. A tenant key can read it in a transparent pool
        only; elsewhere it gets 404 `report.not_found`. An empty period, or one of more than 1,000
        intervals, is 400 `report.period`; more than 200,000 values are 422 `report.too_long`.

        Parameters
        ----------
        from_
            Inclusive; by default 7 days before `to`.
        to
            Exclusive; now by default, and at most now.
        tenant
            This tenant only: its slug, or the pseudonym by which a tenant key knows it; any
            other text is 404 `tenant.not_found`.
        step
            Cuts the period into at most 1000 intervals, in the pool's time zone.
        group
            This group only: its sum and its children. An unknown group is 404
            `group.not_found`; together with `tenant` it is 400 `report.one_of`.
        """
        return self._read(
            f"/api/v1/pools/{path_part(pool)}/reports/utilization/",
            {"from": from_, "to": to, "tenant": tenant, "step": step, "group": group},
        )

    def pools_reports_utilization_show_as(
        self,
        pool: str,
        *,
        format: Literal["csv", "ndjson", "svg"],
        from_: str | datetime | None = None,
        to: str | datetime | None = None,
        tenant: str | None = None,
        step: str | None = None,
        group: str | None = None,
    ) -> Download:
        """`pools_reports_utilization_show` as a file."""
        return self._file(
            f"/api/v1/pools/{path_part(pool)}/reports/utilization/",
            {
                "from": from_,
                "to": to,
                "tenant": tenant,
                "step": step,
                "group": group,
                "format": format,
            },
        )
