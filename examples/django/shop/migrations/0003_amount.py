"""Make the amount large enough: the engine sends it online where the table is large."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """An operation of Django's own, as makemigrations writes it."""

    dependencies = [("shop", "0002_note")]
    operations = [
        migrations.AlterField(model_name="order", name="amount", field=models.BigIntegerField()),
    ]
