"""Settings for local use through `./dev`, with plain HTTP and a key that protects nothing elsewhere."""

from allocator_service.settings.base import *  # noqa: F403
from allocator_service.settings.base import email, logging, redis_client_url
from allocator_service.settings.databases import databases
from allocator_service.settings.environment import read_environment

ENVIRONMENT = read_environment(secret_key="local-only-" + "0" * 50)

SECRET_KEY = ENVIRONMENT.secret_key
DEBUG = ENVIRONMENT.debug
ALLOWED_HOSTS = ENVIRONMENT.allowed_hosts or ["localhost", "127.0.0.1", "[::1]"]
CSRF_TRUSTED_ORIGINS = ENVIRONMENT.csrf_trusted_origins
DATABASES = databases(ENVIRONMENT)
CELERY_BROKER_URL = ENVIRONMENT.redis_url
globals().update(email(ENVIRONMENT))
REDIS_CLIENT_URL = redis_client_url(ENVIRONMENT.redis_url)
LOGGING = logging(ENVIRONMENT.log_level, json=False)
WHITENOISE_USE_FINDERS = True
