"""The settings that all deployments share. `production`, `local` and `test` only fill them in."""

from pathlib import Path
from typing import Any

from allocator_service import __version__
from allocator_service.settings.environment import Environment

BASE_DIR = Path(__file__).resolve().parents[2]

ROOT_URLCONF = "allocator_service.urls"
WSGI_APPLICATION = "allocator_service.wsgi.application"

INSTALLED_APPS = [
    "allocator_service.core",  # before the admin, whose base page it replaces
    "allocator_service.core.admin_config.OperatorAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "allocator_service.core.failed_sign_ins.FailedSignInsConfig",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "allocator_service.tenants",
    "allocator_service.pools",
    "allocator_service.workloads",
    "allocator_service.imports",
    "allocator_service.ledger",
    "allocator_service.allocation",
    "allocator_service.billing",
    "allocator_service.webhooks",
    "allocator_service.enforcement",
    "allocator_service.mail",
    "allocator_service.backtests",
    "allocator_service.transfers",
    "api",
]

MIDDLEWARE = [
    "api.middleware.RequestIdMiddleware",
    "api.metrics.MetricsMiddleware",
    # Before what may put another answer in the place of the application's.
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allocator_service.core.headers.ContentPolicyMiddleware",
    "api.middleware.ProblemMiddleware",
    "api.pages.errors.PageErrorMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "api.pages.sessions.PeopleInTheAdminMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allocator_service.core.middleware.AdminActorMiddleware",
    "axes.middleware.AxesMiddleware",
    "api.standby.StandbyMiddleware",
]

# After five wrong passwords the admin lets a user in from that network only after a while; so does the
# tenants' page after five wrong keys.
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = "allocator_service.core.lockout.cool_off"
AXES_CLIENT_IP_CALLABLE = "allocator_service.core.addresses.client_network"
AXES_USE_ATTEMPT_EXPIRATION = True  # each for its own time, despite other failures meanwhile
AXES_ENABLE_ACCESS_FAILURE_LOG = True
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "key"]
AXES_VERBOSE = False
AXES_ENABLE_ADMIN = False  # core.sign_in_admin has its lists

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

LANGUAGE_CODE = "en"
USE_I18N = False
FORMAT_MODULE_PATH = "allocator_service.core.formats"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "/static/"

# Of each web process: launcher/service.py and docker-compose.yml start as many.
WEB_THREADS = 4

# One bulk request may carry 32 MiB; the API's own parser sets the limit per route.
BULK_BODY_BYTES = 32 * 1024 * 1024
BODY_BYTES = 1024 * 1024
DATA_UPLOAD_MAX_MEMORY_SIZE = BULK_BODY_BYTES + 1024

SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
CSRF_COOKIE_HTTPONLY = True

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["api.auth.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["api.auth.ScopePermission"],
    "DEFAULT_PARSER_CLASSES": ["api.contract.parsers.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["api.contract.renderers.OrjsonRenderer"],
    "DEFAULT_THROTTLE_CLASSES": ["api.throttling.KeyThrottle"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "api.contract.negotiation.ContractNegotiation",
    "DEFAULT_SCHEMA_CLASS": "api.openapi.schema.ContractSchema",
    "EXCEPTION_HANDLER": "api.contract.errors.exception_handler",
    "URL_FORMAT_OVERRIDE": None,
    "UNAUTHENTICATED_USER": None,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}

SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Allocation service",
    "DESCRIPTION": "Fair multi-resource allocation: who may run how much, now and over time.",
    "VERSION": __version__,
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    # A page of ten groups, each of which opens into its operations.
    "SWAGGER_UI_SETTINGS": {"deepLinking": True, "docExpansion": "none"},
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": ["api.openapi.schema.describe_whole"],
}

# The row in PostgreSQL is the job; Redis carries pool ids. Every wait on Redis is bounded, and a
# message that is lost, doubled or late changes nothing (see docs/adr/0003).
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_PUBLISH_RETRY = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_TIME_LIMIT = 120
CELERY_TIMEZONE = "UTC"
# A busy machine may take long to fork; giving up on a child would only start another one.
CELERY_WORKER_PROC_ALIVE_TIMEOUT = 60.0
CELERY_BEAT_SCHEDULER = "allocator_service.core.worker.beat:SigningScheduler"
# Two beats send everything twice: each task does what is due, so that a second one finds nothing to do.
CELERY_BEAT_SCHEDULE = {
    "heartbeat": {"task": "allocation.heartbeat", "schedule": 10.0, "options": {"expires": 30}},
    "meter": {"task": "allocation.meter", "schedule": 10.0, "options": {"expires": 30}},
    "exhausted": {"task": "allocation.budgets", "schedule": 10.0, "options": {"expires": 10}},
    "budgets": {"task": "billing.watch", "schedule": 60.0, "options": {"expires": 60}},
    "late": {"task": "billing.late", "schedule": 10.0, "options": {"expires": 10}},
    "manifests": {"task": "billing.manifests", "schedule": 30.0, "options": {"expires": 30}},
    "drift": {"task": "enforcement.watch", "schedule": 5.0, "options": {"expires": 5}},
    "reports": {"task": "enforcement.retention", "schedule": 3600.0, "options": {"expires": 3600}},
    "mail": {"task": "mail.send", "schedule": 10.0, "options": {"expires": 10}},
    "backtests": {"task": "backtests.retention", "schedule": 3600.0, "options": {"expires": 3600}},
    "retention": {"task": "allocation.retention", "schedule": 3600.0, "options": {"expires": 3600}},
}
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 180,
    "unacked_restore_interval": 5,
    "unacked_restore_throttle": 1,
    "socket_timeout": 2,
    "socket_connect_timeout": 2,
    "socket_keepalive": True,
    "retry_on_timeout": False,
    "max_retries": 1,
}


def redis_client_url(broker_url: str) -> str:
    """Return the broker's URL as redis-py reads it, since kombu writes a Unix socket in another way."""
    if not broker_url.startswith("redis+socket://"):
        return broker_url
    path, _, query = broker_url.removeprefix("redis+socket://").partition("?")
    return f"unix://{path}?{query.replace('virtual_host', 'db')}"


EMAIL_TIMEOUT = 5


def email(environment: Environment) -> dict[str, Any]:
    """Return Django's `EMAIL_` settings."""
    return {} if environment.mail is None else environment.mail.backend


def logging(level: str, *, json: bool) -> dict[str, Any]:
    """Return the configuration of structured logs on standard error.

    They are JSON lines in production and readable ones elsewhere.
    """
    import structlog

    renderer: Any = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(
            colors=False, exception_formatter=structlog.dev.plain_traceback
        )
    )
    exceptions = [structlog.processors.format_exc_info] if json else []
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structured": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": shared,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    *exceptions,
                    renderer,
                ],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django.server": {"handlers": ["stderr"], "propagate": False},
            # One line per message and per tick of beat; the recompute logs the result.
            "celery.beat": {"level": "WARNING"},
            "celery.worker.strategy": {"level": "WARNING"},
            "celery.app.trace": {"level": "WARNING"},
            # Waitress logs a line for each request that waits for a thread.
            "waitress.queue": {"level": "ERROR"},
        },
    }
