from django.apps import AppConfig


class MailConfig(AppConfig):
    name = "allocator_service.mail"
    verbose_name = "Mail"
    label = "mail"
