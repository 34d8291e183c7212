"""Each constraint that a client can violate answers with an error code of its own."""

import pytest
from django.apps import apps
from django.db import models

from allocator_service.core.constraints import domain_error_for

# Constraints that no request can violate: the service chooses the value, or writes it under a lock.
INTERNAL = {
    "allocation_position_unique": "publication numbers the rows of its run",
    "allocation_tasks_nonnegative": "a decision is checked before it is published",
    "agent_name_unique": "an agent's row is written under the pool's lock",
    "api_key_digest_unique": "the digest of 256 random bits",
    "backtest_cell_has_outcome": "written by the job",
    "backtest_cell_position_unique": "numbered when the backtest is created",
    "backtest_finished_has_time": "written by the job",
    "backtest_result_is_whole": "written by the job",
    "backtest_status_has_its_parts": "written by the job",
    "blockage_one_per_tenant": "written under the lock of the pool's watch",
    "budget_reached_once": "get_or_create by these fields",
    "cluster_name_unique": "written under the pool's lock",
    "contribution_disjoint": "written under the pool's lock, never before the present one starts",
    "contribution_one_present": "written under the pool's lock",
    "delivery_once": "created by INSERT ... ON CONFLICT DO NOTHING",
    "delivery_state_known": "the service's own states",
    "drift_one_per_tenant": "written under the lock of the pool's watch",
    "fixed_cost_position": "numbered in the order of the body",
    "former_key_unique": "written by the import of a pool that is new here",
    "group_terms_disjoint": "written under the pool's lock, never before the present ones start",
    "group_terms_one_present": "written under the pool's lock",
    "ledger_archive_name_unique": "named by the digest of its content, under the lock of archiving",
    "ledger_block_holds_something": "written by the sealer",
    "ledger_block_number_unique": "written by the sealer, one at a time",
    "ledger_block_sequences_of_entries": "written by the sealer",
    "ledger_identity_once": "the intake compares contents and answers usage.conflict",
    "ledger_seal_of_pool": "written by the sealer, one at a time, and by imports of new pools",
    "mail_state_one_row": "the only row has this key",
    "mail_subscription_address_unique": "written under the tenant's lock of mail",
    "mail_subscription_one_holder": "the holder of the session is a key or a person",
    "membership_terms_disjoint": "written under the pool's lock, never before the present ones start",
    "membership_terms_one_present": "written under the pool's lock",
    "person_identity_unique": "signing in locks the identity",
    "usage_source_of_one_cluster": "a source that has a cluster keeps it",
    "placement_position_unique": "publication numbers the rows of its run",
    "placement_tasks_positive": "a decision is checked before it is published",
    "plan_number_unique": "plans are numbered under the lock of the pool's billing",
    "plan_published_is_numbered": "publishing writes all of these fields",
    "policy_comparison_has_outcome": "written by the job",
    "posting_adjusts_for_an_entry": "rating writes all of these fields",
    "posting_balances": "rating rounds once and divides the rest",
    "posting_credits_an_owner": "rating writes all of these fields",
    "posting_reversal_names_its_line": "rating writes all of these fields",
    "resource_type_position_unique": "numbered in the order of the body, under the pool's lock",
    "run_decisions_disjoint": "published under the lock of the pool's decisions",
    "run_failed_says_why": "written by the job",
    "run_one_in_force_per_pool": "published under the lock of the pool's decisions",
    "run_one_pending_per_pool": "claimed under the lock of the pool's decisions",
    "run_one_running_per_pool": "claimed under the lock of the pool's decisions",
    "run_succeeded_is_complete": "publication writes all of these fields",
    "saved_filter_name_unique": "saving under a name in use replaces the filter",
    "server_class_position_unique": "publication numbers the rows of its run",
    "server_state_known": "the service's own states",
    "simulation_finished_has_outcome": "written by the job",
    "statement_once": "written by closing, under the lock of the pool's billing",
    "webhook_billing_without_tenant": "the service refuses it with `webhook.tenant`",
    "webhook_cursor_one": "the only row has this key",
    "webhook_disabled_because": "written by services with a reason of their own",
    "webhook_secret_one_present": "written under the lock of the webhook's row",
    "workload_state_known": "the service's own states",
}
# Unique columns have no constraint in a model's Meta, and so no place for a code.
INTERNAL_FIELDS = {
    "allocation.PlacementDates.run": "written with the decision, behind the fence of the pool's job",
    "billing.CreditNote.reverses": "the note is reversed under the lock of the pool's billing",
    "billing.Rerating.plan": "a plan is applied under the lock of the pool's billing",
    "core.EventSeal.event": "written by the sealer, one at a time",
    "tenants.Person.user": "the user is created with the person",
}


def constraints() -> dict[str, models.BaseConstraint]:
    return {
        constraint.name: constraint
        for model in apps.get_models()
        if model.__module__.startswith("allocator_service.")
        for constraint in model._meta.constraints
    }


def test_each_constraint_has_a_code_or_a_reason_why_no_client_can_violate_it():
    found = constraints()
    coded = {name for name, each in found.items() if each.violation_error_code}
    assert set(found) - coded - set(INTERNAL) == set(), "give it a violation_error_code"
    assert coded & set(INTERNAL) == set()
    assert set(INTERNAL) - set(found) == set()


def test_each_unique_column_is_named_with_a_reason():
    found = {
        f"{model._meta.label}.{field.name}"
        for model in apps.get_models()
        if model.__module__.startswith("allocator_service.")
        for field in model._meta.fields
        if field.unique and not field.primary_key
    }
    assert found == set(INTERNAL_FIELDS)


@pytest.mark.parametrize(
    "name", [name for name, each in constraints().items() if each.violation_error_code]
)
def test_a_violation_is_a_409_or_422_with_a_sentence_of_its_own(name):
    constraint = constraints()[name]
    error = domain_error_for(name)
    assert error is not None
    assert error.status == (422 if isinstance(constraint, models.CheckConstraint) else 409)
    assert error.code == constraint.violation_error_code
    assert error.detail != models.BaseConstraint.default_violation_error_message
