"""The web process. The children that evaluate load their kernels while it already answers."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "allocator_service.settings.production")
os.environ.setdefault("ALLOCATOR_PROCESS", "web")
# The matrices are small: a second thread of BLAS costs more than it does, and cores are shared.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()

# Needs the applications that the line above has loaded.
from allocator_service.allocation.what_if.evaluations import evaluation_children_start  # noqa: E402

evaluation_children_start()
