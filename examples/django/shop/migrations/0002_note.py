"""Add a note with an index, online however large the table is."""

from django.db import migrations, models

from spirit_py.frameworks.django import Online


class Migration(migrations.Migration):
    """Operations of Django's own; their state and their reverse are theirs."""

    dependencies = [("shop", "0001_initial")]
    operations = [
        Online(
            migrations.AddField(
                model_name="order",
                name="note",
                field=models.CharField(max_length=200, default="100% new", db_index=True),
            ),
        ),
    ]
