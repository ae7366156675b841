"""Whether a status is the operator's own, and whether an effect is among what its plan names.

A digest is no secret: whoever may write a status can write a plan with the digest that fits it. So a status counts for
as much as what keeps others from writing it: the admission policy for statuses, if it stood before the run was there,
or else a person who has approved that very plan since.
"""

from __future__ import annotations

from kafka_medic.guard.evaluate import some
from kafka_medic.guard.verdict import Reason, Verdict
from kafka_medic.playbook.approval import ApprovalJudgement
from kafka_medic.playbook.effects import Intent
from kafka_medic.playbook.plan_digest import digest_fits
from kafka_medic.playbook.plan_file import is_missing
from kafka_medic.playbook.registry import actions_of
from kafka_medic.resources.admission import Standing
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan
from kafka_medic.resources.vocabulary import Decision, Guard


def forged(run: Remediation) -> str | None:
    """Why the operator cannot have written this status; None where nothing says so."""
    plan = run.status.plan
    if plan is None:
        return "its status has no plan: another writer removed it"
    if not digest_fits(run, plan):
        return "the plan in its status does not match its digest: another writer changed it"
    if [(s.name, s.action) for s in run.status.steps] != [(s.name, s.action) for s in plan.steps]:
        return "the steps in its status are not those of its plan: another writer changed them"
    beyond = [] if is_missing(plan) else sorted(_saved(run) - _restorable(plan))
    if beyond:
        return f"its journal would restore {some(beyond, 3)}, which is not in its plan: another writer changed it"
    return None


def _saved(run: Remediation) -> set[str]:
    """Settings and annotations; an election's places, say, are nothing that is put back."""
    names = (value.name for entry in run.status.journal for value in entry.saved)
    return {name for name in names if name.startswith(("TOPIC/", "BROKER/", "POD/", "OWNER/"))}


def _restorable(plan: Plan) -> set[str]:
    return {name for action in actions_of(plan) for name in action.restorable(plan)}


def own_status(run: Remediation, judged: ApprovalJudgement, policies: Standing | None) -> Reason:
    """Whether the status may be believed: else nothing is taken back on its word, nor begun. `judged`: what people say
    about its plan. `policies`: None where they cannot be read."""
    guard = Guard.APPROVAL_VALID
    if policies is None:
        return Reason(guard, Verdict.UNKNOWN, "the admission policies could not be read, so its status is not trusted")
    if policies.since is None:
        message = (
            "its status is not trusted, so the operator reverts nothing: without the admission policies any user "
            f"with the right may write it ({policies.why}). Install them again, then approve its plan again"
        )
        return Reason(guard, Verdict.WAIT, message)
    if policies.covers(run.metadata.creation_timestamp):
        return Reason(guard, Verdict.ALLOW, "only the operator could write its status")
    approvals = [r for r in judged.records if r.counted and r.decision is Decision.APPROVE]
    if any(policies.covers(record.at) for record in approvals):
        return Reason(guard, Verdict.ALLOW, "its plan was approved while only the operator could write its status")
    way_out = "approve its plan again"
    if run.status.journal:
        way_out = f"read its journal with `history -o json`, then {way_out} to restore the saved values"
    younger = "the admission policies are younger than the run, so other writers could change its status"
    return Reason(guard, Verdict.WAIT, f"its status is not trusted: {younger}; {way_out}")


def beyond_plan(intent: Intent, plan: Plan) -> str | None:
    """What the effect would write that the plan does not name; None: nothing."""
    named = {item for action in actions_of(plan) for item in action.may_write(plan)}
    beyond = [name for item, name in intent.writes().items() if item not in named]
    return f"{intent.describe()}: {some(beyond, 3)} is not in its plan" if beyond else None
