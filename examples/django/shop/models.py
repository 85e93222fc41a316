"""The models of the shop, as they are after the last migration."""

from django.db import models


class Customer(models.Model):
    """A customer."""

    name = models.CharField(max_length=80)

    def __str__(self) -> str:
        """Return the name."""
        return self.name


class Order(models.Model):
    """An order; there are many of them."""

    number = models.IntegerField()
    amount = models.BigIntegerField()
    note = models.CharField(max_length=200, default="100% new", db_index=True)
    # To add a foreign key, MySQL compares every row under a lock: docs/django.md has the ways.
    customer = models.ForeignKey(Customer, on_delete=models.CASCADE, null=True, db_constraint=False)

    def __str__(self) -> str:
        """Return the number."""
        return f"order {self.number}"
