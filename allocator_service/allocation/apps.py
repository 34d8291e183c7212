from django.apps import AppConfig


class AllocationConfig(AppConfig):
    name = "allocator_service.allocation"
    verbose_name = "Decisions"
    label = "allocation"

    def ready(self) -> None:
        from allocator_service.allocation import tasks
        from allocator_service.allocation.policies import (
            gangs_refusal,
            groups_refusal,
            limits_refusal,
        )
        from allocator_service.allocation.what_if.simulations import SIMULATION_JOBS
        from allocator_service.core.jobs import register_jobs
        from allocator_service.pools.gangs import register_gang_rule
        from allocator_service.pools.limits import register_limit_rule
        from allocator_service.pools.policy import register_group_rule
        from allocator_service.pools.recompute import DECISION_JOBS

        register_jobs(DECISION_JOBS, tasks.recompute)
        register_jobs(SIMULATION_JOBS, tasks.simulate)
        register_gang_rule(gangs_refusal)
        register_group_rule(groups_refusal)
        register_limit_rule(limits_refusal)
