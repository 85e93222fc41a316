"""Only what migrations need."""

import os

SECRET_KEY = "only an example"  # noqa: S105
INSTALLED_APPS = ["shop"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

DATABASES = {
    "default": {
        # Django's own engine, but ALTERs of large tables go online.
        "ENGINE": "spirit_py.frameworks.django.mysql",
        "HOST": os.environ.get("SHOP_HOST", "127.0.0.1"),
        "PORT": os.environ.get("SHOP_PORT", "3306"),
        "NAME": os.environ.get("SHOP_DATABASE", "shop"),
        "USER": os.environ.get("SHOP_USER", "root"),
        "PASSWORD": os.environ.get("SHOP_PASSWORD", ""),
        "OPTIONS": {"init_command": "SET sql_mode = 'STRICT_TRANS_TABLES'"},
    }
}

SPIRIT_PY = {
    # What is large: rows or bytes by the server's estimate, or a table by its name.
    "min_rows": 10_000,
    "min_size": "10G",
    # All else are options of spirit-py, by their names on the command line.
    "max_load": {"Threads_running": 25},
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "loggers": {"spirit_py": {"handlers": ["console"], "level": "INFO"}},
}
