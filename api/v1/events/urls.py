from django.urls import path

from api.v1.events.views import EventsView

urlpatterns = [path("events/", EventsView.as_view(), name="events")]
