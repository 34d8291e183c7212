from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0002_keys_of_agents")]

    operations = [
        migrations.AddField(
            model_name="apikey",
            name="last_used_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
    ]
