"""Where Alembic connects to, and what it compares the database with."""

import os
from logging.config import fileConfig

import sqlalchemy as sa
from alembic import context

import spirit_py.frameworks.alembic  # noqa: F401 - op.online_alter_table, and large tables online
from shop.models import Base

config = context.config
if config.config_file_name is not None:
    fileConfig(config.config_file_name, disable_existing_loggers=False)


def run_offline(url: str) -> None:
    """Print the statements (``--sql``)."""
    context.configure(url=url, target_metadata=Base.metadata, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()


def run_online(url: str) -> None:
    """Run the migrations."""
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        context.configure(connection=connection, target_metadata=Base.metadata)
        with context.begin_transaction():
            context.run_migrations()


database_url = os.environ["SHOP_DATABASE_URL"]
if context.is_offline_mode():
    run_offline(database_url)
else:
    run_online(database_url)
