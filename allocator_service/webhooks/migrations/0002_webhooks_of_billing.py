from django.db import migrations, models


class Migration(migrations.Migration):
    safe_while_used = (
        "The table has a row per webhook and is read in milliseconds. The release before writes the"
        " default alone, which the constraint accepts."
    )

    dependencies = [
        ('webhooks', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='webhook',
            name='scope',
            field=models.CharField(choices=[('operator', 'Operator'), ('billing', 'Billing')], db_default='operator', default='operator', max_length=10),
        ),
        migrations.AddConstraint(
            model_name='webhook',
            constraint=models.CheckConstraint(condition=models.Q(('scope', 'operator'), models.Q(('scope', 'billing'), ('tenant', None)), _connector='OR'), name='webhook_billing_without_tenant'),
        ),
    ]
