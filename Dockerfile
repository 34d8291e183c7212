# The production image: one for web, worker, beat, relay and migrate; docker-compose.yml says which.
# PYTHON_IMAGE=python@sha256:... pins the base image by its digest.

ARG PYTHON_IMAGE=python:3.11-slim-bookworm
FROM ${PYTHON_IMAGE} AS dependencies
COPY requirements.lock /tmp/requirements.lock
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --require-hashes --no-deps --requirement /tmp/requirements.lock

FROM ${PYTHON_IMAGE}
RUN useradd --uid 10001 --user-group --home-dir /srv/allocator --create-home allocator
WORKDIR /srv/allocator
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    DJANGO_SETTINGS_MODULE=allocator_service.settings.production \
    NUMBA_CACHE_DIR=/srv/allocator/.numba
COPY --from=dependencies /opt/venv /opt/venv
COPY --chown=allocator:allocator manage.py ./
COPY --chown=allocator:allocator policies ./policies
COPY --chown=allocator:allocator allocator_service ./allocator_service
COPY --chown=allocator:allocator api ./api
USER allocator
# Kernels are compiled and static files gathered once, here; the values are for this step only.
RUN python -c "import policies; policies.warm()" \
    && SECRET_KEY=for-this-step-only ALLOWED_HOSTS=localhost \
       DATABASE_URL=postgresql://none@localhost/none REDIS_URL=redis://localhost/0 \
       python manage.py collectstatic --no-input
EXPOSE 8000
CMD ["gunicorn", "allocator_service.wsgi:application", "--worker-class", "allocator_service.web.worker.BufferedWorker", "--threads", "4", "--graceful-timeout", "30", "--bind", "0.0.0.0:8000", "--no-control-socket"]
