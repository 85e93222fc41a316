"""Drop the remark and add the customer by one ALTER, which copies the rows once."""

import django.db.models.deletion
from django.db import migrations, models

from spirit_py.frameworks.django import SpiritAlter


class Migration(migrations.Migration):
    """Clauses, what undoes them, and what they mean for the models."""

    dependencies = [("shop", "0003_amount")]
    operations = [
        SpiritAlter(
            "shop_order",
            "DROP COLUMN remark, ADD COLUMN customer_id BIGINT NULL,"
            " ADD INDEX shop_order_customer (customer_id)",
            reverse="DROP INDEX shop_order_customer, DROP COLUMN customer_id,"
            " ADD COLUMN remark VARCHAR(40)",
            state_operations=[
                migrations.RemoveField(model_name="order", name="remark"),
                migrations.AddField(
                    model_name="order",
                    name="customer",
                    field=models.ForeignKey(
                        "shop.Customer",
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                    ),
                ),
            ],
        ),
    ]
