"""The Celery application, whose workers compute. Redis carries only the ids of jobs."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "allocator_service.settings.local")
os.environ.setdefault("ALLOCATOR_PROCESS", "worker")
# The matrices are small: a second thread of BLAS costs more than it does, and cores are shared.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Django's checks would load the API, 40 MiB of memory, in processes that do not serve it.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

from celery import Celery
from celery.signals import setup_logging, worker_init, worker_ready
from django.conf import settings

# Of workers that compute backtests: whatever decides or answers goes first on the same machine.
NICENESS = 15

app = Celery(
    "allocator_service", task_cls="allocator_service.core.worker.deliveries:ReconnectingTask"
)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def _keep_djangos_logging(**_: object) -> None:
    """Leave logging as the settings configured it, so that every process has one format."""


@worker_init.connect
def _load_compiled_kernels(**_: object) -> None:
    """Load the compiled kernels before the first task, so that no decision waits for a compiler.

    Before the children are forked: they start with everything loaded, also in the place of one that
    was killed. While the first start still compiles, that is what the default policy needs.
    """
    from allocator_service.core.confined import give_way
    from allocator_service.core.garbage import collect_rarely
    from allocator_service.core.jobs import BACKTESTS
    from allocator_service.core.worker.watch import WorkerWatch
    from policies import warm_compiled

    if settings.ENVIRONMENT.process == BACKTESTS:
        give_way(NICENESS)
    app.watch = WorkerWatch(app, settings.ENVIRONMENT)
    if settings.ENVIRONMENT.process != BACKTESTS:  # which loads what its first simulation needs
        warm_compiled()
    # Frozen before the children are forked, the pages of what is loaded stay shared with them, too.
    collect_rarely()


@worker_ready.connect
def _show_that_a_worker_works(**_: object) -> None:
    """Do not wait for beat's first tick until the service calls itself ready.

    A worker of backtests may be at one for an hour and takes no message meanwhile: a thread reports it.
    """
    from allocator_service.allocation.services import heartbeat_record
    from allocator_service.core.jobs import BACKTESTS
    from allocator_service.core.worker.heartbeats import beat_on

    if settings.ENVIRONMENT.process == BACKTESTS:
        beat_on(lambda now: heartbeat_record(process=BACKTESTS, now=now))
    else:
        app.send_task("allocation.heartbeat", expires=30, retry=False)
