"""Replace the remark by a longer note, and find orders by customer.

Revision ID: 0002
"""

import sqlalchemy as sa
from alembic import op

from spirit_py.frameworks.alembic import online_alter_table

revision = "0002"
down_revision = "0001"

COMMENT = "100% free text; 'quoted'"


def upgrade() -> None:
    """Make one online ALTER of three operations: the rows are copied once."""
    with online_alter_table(op, "orders", defer_indexes="off", no_shortcut=True) as table:
        table.add_column(sa.Column("note", sa.String(200), comment=COMMENT))
        table.drop_column("remark")
        table.create_index("ix_orders_customer", ["customer"])


def downgrade() -> None:
    """Undo them in the same way."""
    with online_alter_table(op, "orders") as table:
        table.drop_index("ix_orders_customer")
        table.add_column(sa.Column("remark", sa.String(40)))
        table.drop_column("note")
