"""Where to begin, and whether the service is well.

Made from docs/openapi.yaml by client/generate.py: change those.
"""

from allocator_client._generated.documents.service import (
    ReadinessDocument,
    RootDocument,
    StatusDocument,
)
from allocator_client.answers import Answer
from allocator_client.transport import Transport


class Service(Transport):
    """Where to begin, and whether the service is well."""

    def root_show(self) -> Answer[RootDocument]:
        """Link to the collections of the API, to its documentation and to its OpenAPI document.

        It needs no key and names the version of the service. Links are absolute and use the host of
        the request.
        """
        return self._read("/api/v1/")

    def healthz_show(self) -> Answer[StatusDocument]:
        """Answer that the process is alive.

        It needs no key and checks nothing else; `/readyz` states whether the service can serve
        requests.
        """
        return self._read("/healthz")

    def metrics_show(self) -> Answer[str]:
        """Give the metrics of the service in the text format of Prometheus.

        It takes an operator's key that is bound to no pool, or the `METRICS_TOKEN` of the settings as
        the bearer token; anything else answers 401 `auth.metrics`. No metric names a tenant.
        """
        return self._text("/metrics")

    def readyz_show(self) -> Answer[ReadinessDocument]:
        """Report whether the service can serve requests, with the state of everything it works with.

        It needs no key. The answer is 503 only when the database does not answer or migrations are
        missing. The broker, worker, relay, sender, metering and the worker of backtests can be
        `degraded`: requests are still served, while decisions, the ledger, events, webhooks or
        backtests may come late.
        """
        return self._read("/readyz")
