"""Make the amount large enough.

Revision ID: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Use Alembic's own operation: alembic.ini sends it online where the table is large."""
    op.alter_column("orders", "amount", type_=sa.BigInteger, existing_nullable=False)


def downgrade() -> None:
    """Make it small again; a value that does not fit would stop this, and nothing is changed."""
    op.alter_column("orders", "amount", type_=sa.Integer, existing_nullable=False)
