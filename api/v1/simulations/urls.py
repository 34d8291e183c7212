from django.urls import path

from api.v1.simulations.views import SimulationsView, SimulationView

urlpatterns = [
    path("pools/<str:pool>/simulations/", SimulationsView.as_view(), name="simulations"),
    path("simulations/<str:simulation>/", SimulationView.as_view(), name="simulation"),
]
