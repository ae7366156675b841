"""The commands that write: approve, reject, abort, run, pause, resume. Each shows first what it will do.

What is refused here would not count anyway: the operator and the admission policies check all of it again. An early
refusal saves the person on call from a run that keeps waiting.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import NoReturn

from kafka_medic.cli import exits, output
from kafka_medic.cli.exits import RefusedError, UnusableInputError
from kafka_medic.cli.remediation import rendering
from kafka_medic.cli.remediation.access import Access, Person
from kafka_medic.cli.remediation.read_commands import cluster_of, follow, read_plan
from kafka_medic.cluster.names import printable, shown
from kafka_medic.playbook.plan_digest import digest_fits
from kafka_medic.playbook.values import check_values
from kafka_medic.report.units import many
from kafka_medic.resources.errors import ResourceError
from kafka_medic.resources.kafkacluster import KafkaCluster
from kafka_medic.resources.phases import ACTING_PHASES, TERMINAL_PHASES, Phase
from kafka_medic.resources.playbook import Playbook
from kafka_medic.resources.remediation import Remediation
from kafka_medic.resources.remediation_plan import Plan, Restarts
from kafka_medic.resources.vocabulary import APPROVE_VERB, USE_VERB, Decision, RemediationMode

_MAX_REASON = 1024


def approve(access: Access, args: argparse.Namespace) -> int:
    run, me = access.remediation(args.name), access.me()
    plan = _decidable(access, run, me, args)
    _is_what_it_says(run, plan)
    cluster = cluster_of(access, run)
    _may_count(run, plan, cluster, me)
    required = cluster.spec.remediation.approvals.needed(run.spec.requested_by) if cluster else None
    _show(
        args,
        rendering.head(run, me.time, required),
        "\n",
        rendering.plan_text(plan, read=read_plan(access, run)),
        rendering.saved_text(run),
        "\n",
        rendering.guards_text(run),
    )
    _show(args, f"\nYou are {printable(me.name)}. You approve exactly the plan {plan.digest}.\n")
    if run.status.phase in ACTING_PHASES:
        effect = "The run has begun. Your approval restarts the timeout of a step that took too long"
        again = "; it also restarts a broker again that came back with its old configuration"
        _show(args, f"{effect}{again if plan.part(Restarts).static_settings else ''}.\n")
    _confirm(args, "Approve it?")
    return _decide(access, args, run, plan, Decision.APPROVE, me)


def reject(access: Access, args: argparse.Namespace) -> int:
    """`abort` is the same decision on a run that has begun; each shows first which of the two it is."""
    run, me = access.remediation(args.name), access.me()
    plan = _decidable(access, run, me, args)
    _show(args, rendering.head(run, me.time, None))
    if run.status.phase in ACTING_PHASES:
        what = (
            "The run has begun. It ends as Aborted: the operator cancels what is in flight and removes the "
            "throttle; what is done stays."
        )
    else:
        what = "The run has changed nothing. It ends as Rejected."
    if run.spec.cause is not None:
        what += " The operator proposes no new run for a lasting finding until you delete this Remediation."
    _show(args, f"\n{what}\nYou are {printable(me.name)}; one approver is enough.\n")
    _confirm(args, "End it?")
    return _decide(access, args, run, plan, Decision.REJECT, me)


def request_run(access: Access, args: argparse.Namespace) -> int:
    cluster, playbook, me = access.cluster(args.cluster), access.playbook(args.playbook), access.me()
    parameters = dict(args.set or ())
    try:
        check_values(playbook, parameters)
    except ResourceError as problem:
        message = "; ".join(str(p) for p in problem.problems)
        raise UnusableInputError("--set", message, f"`kubectl get kmp {playbook.name} -o yaml` has them") from None
    policy = cluster.spec.remediation
    if policy.mode_for(playbook.name) is RemediationMode.OBSERVE:
        way_out = "set spec.remediation.mode to Approve, for this playbook or for all"
        raise RefusedError(
            f"the mode of {cluster.name} is Observe for {playbook.name}, so the operator carries out no plan", way_out
        )
    if access.may("create", Remediation.PLURAL) is False:
        raise RefusedError(
            f"{me.name} may not request a Remediation in namespace {access.namespace}",
            "you need the verb create on remediations (ClusterRole kafka-medic-operator-user)",
        )
    _may_use(access, playbook.name, parameters, me)
    rows = [
        ("playbook", f"{playbook.name}: {shown(playbook.spec.description, 200)}"),
        ("risk", playbook.spec.risk.value),
        ("cluster", f"{cluster.namespace}/{cluster.name}"),
        ("parameters", ", ".join(f"{k}={v}" for k, v in sorted(parameters.items())) or "the playbook's own"),
        ("asked by", me.name),
    ]
    _show(args, rendering.fields(rows))
    whose = "you may be one of them" if policy.approvals.allow_requester else "you may not be one of them"
    _show(
        args,
        "\nThe operator makes a plan, and changes nothing before "
        f"{many(policy.approvals.needed(me.name), 'approval')}; {whose}.\n",
    )
    _confirm(args, "Request it?")
    name = access.create_remediation(cluster, playbook, parameters, me)
    _done(
        args,
        {"remediation": name, "namespace": access.namespace, "requestedBy": me.name},
        f"created Remediation {name}",
    )
    return follow(access, name) if args.watch else exits.OK


def _may_use(access: Access, playbook: str, parameters: Mapping[str, str], me: Person) -> None:
    """Raises RefusedError where the admission policy would refuse the request."""
    if access.may(USE_VERB, Playbook.PLURAL, playbook) is False:
        raise RefusedError(
            f"{me.name} may not request {playbook} in namespace {access.namespace}",
            f"you need the verb {USE_VERB} on playbooks, for {playbook}",
        )
    if not parameters or access.may(USE_VERB, Playbook.PLURAL, playbook, "*"):
        return
    refused = [p for p in sorted(parameters) if access.may(USE_VERB, Playbook.PLURAL, playbook, p) is False]
    if refused:
        named = ", ".join(f"playbooks/{p}" for p in refused)
        raise RefusedError(
            f"{me.name} may not set {', '.join(refused)} of {playbook} in namespace {access.namespace}",
            f"you need the verb {USE_VERB} on {named}; without --set the playbook's own values apply",
        )


def pause(access: Access, args: argparse.Namespace) -> int:
    cluster, me = access.cluster(args.cluster), access.me()
    policy = cluster.spec.remediation
    answer = {"cluster": cluster.name, "namespace": cluster.namespace, "paused": True}
    if policy.paused:
        why = policy.pause_reason or "no reason given"
        _done(args, {**answer, "reason": why}, f"{cluster.name} is already paused: {why}")
        return exits.OK
    # The field holds whose pause it is: who comes next has to know whom to ask.
    reason = f"{args.reason} (paused by {me.name})"
    if len(reason) > _MAX_REASON:
        raise UnusableInputError("--reason", f"is too long (limit {_MAX_REASON} characters)")
    access.change_policy(cluster, {"paused": True, "pauseReason": reason})
    message = f"{cluster.name} is paused: {reason}\nThe operator sends nothing more to it. Copies in flight continue."
    _done(args, {**answer, "reason": reason}, message)
    return exits.OK


def resume(access: Access, args: argparse.Namespace) -> int:
    cluster = access.cluster(args.cluster)
    policy = cluster.spec.remediation
    answer: dict[str, object] = {"cluster": cluster.name, "namespace": cluster.namespace, "paused": False}
    if not policy.paused:
        return _try_again(access, args, cluster, answer)
    _show(args, f"{cluster.name} is paused: {policy.pause_reason or 'no reason given'}\n")
    held = [e.run for e in access.remediations(cluster.name) if e.run and e.run.status.phase not in TERMINAL_PHASES]
    for run in held:
        _show(args, f"  {run.name}: {rendering.progress_line(run)}\n")
    _show(args, "Approved runs resume at once.\n" if held else "No run waits for it.\n")
    _confirm(args, "Resume?")
    access.change_policy(cluster, {"paused": False, "pauseReason": None})
    _done(args, answer, f"{cluster.name} is resumed")
    return exits.OK


def _try_again(access: Access, args: argparse.Namespace, cluster: KafkaCluster, answer: dict[str, object]) -> int:
    """What holds a cluster that nobody has paused: the breaker, if it is open."""
    allowed = next((c for c in cluster.status.conditions if c.type == "RemediationAllowed"), None)
    if allowed is None or allowed.reason != "BreakerOpen":
        _done(args, answer, f"{cluster.name} is not paused")
        return exits.OK
    _show(
        args,
        f"{printable(allowed.message)}\n\nThe operator tries one remediation; if it fails, the breaker opens again.\n",
    )
    _confirm(args, "Allow one try?")
    at = access.me().time.strftime("%Y-%m-%dT%H:%M:%SZ")
    access.change_policy(cluster, {"breaker": {"tryAgainAt": at}})
    _done(
        args,
        {**answer, "tryAgainAt": at},
        f"{cluster.name}: the operator may try one remediation (allowed by you at {at})",
    )
    return exits.OK


def _decidable(access: Access, run: Remediation, me: Person, args: argparse.Namespace) -> Plan:
    """The plan that there is to decide on, shown exactly as it will be named. Raises RefusedError."""
    status, plan = run.status, run.status.plan
    if status.phase in TERMINAL_PHASES:
        raise RefusedError(f"{run.name} ended as {status.phase}: {status.message}", "`list` shows what waits")
    if plan is None:
        message = status.message or "the operator has not seen it yet"
        way_out = "`explain` shows what it waits for; it has changed nothing, so you can also delete it"
        raise RefusedError(f"{run.name} has no plan to decide on yet: {message}", way_out)
    if args.digest and args.digest != plan.digest:
        raise RefusedError(f"the plan of {run.name} is {plan.digest}, not {args.digest}", "read it with `show`")
    if access.may(APPROVE_VERB, Remediation.PLURAL, run.name) is False:
        raise RefusedError(
            f"{me.name} may not decide on Remediation {run.name} in namespace {access.namespace}",
            "you need the verb approve on remediations: ask for a RoleBinding to ClusterRole kafka-medic-approver",
        )
    return plan


def _is_what_it_says(run: Remediation, plan: Plan) -> None:
    """For an approval alone: everybody may always reject. Raises RefusedError."""
    if not digest_fits(run, plan):
        raise RefusedError(
            f"the plan of {run.name} does not match the digest in its status, so your approval would not cover "
            "what you read",
            "another writer changed the status, or this kafka-medic is not of the operator's version",
        )


def _may_count(run: Remediation, plan: Plan, cluster: KafkaCluster | None, me: Person) -> None:
    """Raises RefusedError where an approval of this person's would be listed as one that does not count."""
    policy = cluster.spec.remediation if cluster else None
    if policy is not None and policy.mode_for(run.spec.playbook.name) is RemediationMode.OBSERVE:
        raise RefusedError(
            "the KafkaCluster's mode is Observe, so the operator carries out no plan", "first set its mode to Approve"
        )
    if policy is not None and policy.approvals.is_machine(me.name):
        raise RefusedError(
            f"{me.name} is a ServiceAccount, and spec.remediation.approvals.serviceAccounts does not list it",
            "approve as a person, or ask the KafkaCluster's editor to list it",
        )
    # Where the KafkaCluster could not be read, nobody has been allowed to.
    if me.name == run.spec.requested_by and not (policy is not None and policy.approvals.allow_requester):
        raise RefusedError(
            f"{me.name} requested this run and so may not approve it (spec.remediation.approvals.allowRequester)",
            "ask another approver: `show` names them if it can",
        )
    if run.status.started_at is None and me.time >= plan.expires_at:
        raise RefusedError(
            f"the plan expired at {plan.expires_at:%Y-%m-%d %H:%M:%S} UTC, so an approval does not count",
            "delete the Remediation: the operator proposes a new run for a lasting finding; or request one with `run`",
        )


def _decide(
    access: Access, args: argparse.Namespace, run: Remediation, plan: Plan, decision: Decision, me: Person
) -> int:
    # The plan may have become another while it was read. An approval of the old one would count for nothing.
    present = access.remediation(run.name)
    now = present.status.plan.digest if present.status.plan else None
    if present.uid != run.uid or now != plan.digest:
        raise RefusedError(
            f"{run.name} was planned again while you read it, so your plan is no longer current",
            "nothing was written; read the new plan and decide again",
        )
    name = access.create_approval(run, plan.digest, decision, args.reason, me)
    answer = {
        "approval": name, "namespace": access.namespace, "remediation": run.name, "planDigest": plan.digest,
        "decision": decision.value, "approver": me.name,
    }  # fmt: skip
    decided = "approved" if decision is Decision.APPROVE else "rejected"
    hint = f"`show {run.name} -n {run.namespace} --watch` follows it."
    _done(args, answer, f"{decided} by {me.name} (RemediationApproval {name})\n{hint}")
    if not args.watch:
        return exits.OK
    ended = follow(access, run.name)
    if decision is Decision.APPROVE:
        return ended
    rejected = access.remediation(run.name).status.phase in (Phase.REJECTED, Phase.ABORTED)
    return exits.OK if rejected else exits.NOT_YET


def _show(args: argparse.Namespace, *texts: str) -> None:
    """Beside the answer where that is for a program."""
    if args.output == "table":
        output.put("".join(texts))
    else:
        output.put_stderr("".join(texts))


def _done(args: argparse.Namespace, answer: Mapping[str, object], text: str) -> None:
    if args.output == "table":
        output.put("".join(f"{printable(line)}\n" for line in text.split("\n")))
    else:
        output.write(dict(answer), args.output)


def _confirm(args: argparse.Namespace, question: str) -> None:
    """Raises RefusedError unless somebody says yes; UnusableInputError where nobody can be asked."""
    if args.yes:
        return
    if not sys.stdin.isatty():
        _refuse_without_terminal()
    # Not on standard output, where the answer for a program may be.
    output.put_stderr(f"{question} Type yes: ")
    try:
        answer = input()
    except EOFError:
        _refuse_without_terminal()
    if answer.strip().lower() != "yes":
        raise RefusedError("nothing was done, because the answer was not yes")


def _refuse_without_terminal() -> NoReturn:
    way_out = "read it with `show`, then use --yes and --digest with the plan you read"
    raise UnusableInputError("standard input", "is not a terminal, so kafka-medic cannot ask you", way_out)
