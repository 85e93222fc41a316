"""The tables of the shop, as they are after the last migration."""

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """Base of the models."""


class Order(Base):
    """An order; there are many of them."""

    __tablename__ = "orders"
    __table_args__ = (sa.Index("ix_orders_customer", "customer"),)

    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True)
    customer: Mapped[int] = mapped_column(sa.Integer)
    amount: Mapped[int] = mapped_column(sa.BigInteger)
    note: Mapped[str | None] = mapped_column(sa.String(200), comment="100% free text; 'quoted'")
