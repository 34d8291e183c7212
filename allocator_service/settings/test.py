"""Settings for tests, which are the local ones with fast password hashes and real servers."""

import os

# Tools that only import the settings (mypy's plugin, the drift checks) need no running servers.
os.environ.setdefault("DATABASE_URL", "postgresql://none@localhost:1/none")
os.environ.setdefault("REDIS_URL", "redis://localhost:1/0")

from allocator_service.settings.local import *  # noqa: F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
ALLOWED_HOSTS = ["*"]
# Each test client starts a handler of its own, which would read the headers of every static file first.
WHITENOISE_AUTOREFRESH = True
