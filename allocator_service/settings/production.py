"""Settings for production.

No secret has a default, and everything that browsers can enforce is on.
"""

from django.core.exceptions import ImproperlyConfigured

from allocator_service.settings.base import *  # noqa: F403
from allocator_service.settings.base import BASE_DIR, email, logging, redis_client_url
from allocator_service.settings.databases import databases
from allocator_service.settings.environment import read_environment

ENVIRONMENT = read_environment()
if ENVIRONMENT.clock_file:
    raise ImproperlyConfigured(
        "CLOCK_FILE is for tests and demonstrations: in production time is the machine's. Unset it."
    )

SECRET_KEY = ENVIRONMENT.secret_key
DEBUG = False
ALLOWED_HOSTS = ENVIRONMENT.allowed_hosts
CSRF_TRUSTED_ORIGINS = ENVIRONMENT.csrf_trusted_origins
DATABASES = databases(ENVIRONMENT)
CELERY_BROKER_URL = ENVIRONMENT.redis_url
globals().update(email(ENVIRONMENT))
REDIS_CLIENT_URL = redis_client_url(ENVIRONMENT.redis_url)
LOGGING = logging(ENVIRONMENT.log_level, json=True)
LOGGING_CONFIG = "logging.config.dictConfig"

SECURE_SSL_REDIRECT = True
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
SECURE_HSTS_SECONDS = 31_536_000
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
if ENVIRONMENT.secure_proxy:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
STATIC_ROOT = ENVIRONMENT.static_root or BASE_DIR / "staticfiles"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
