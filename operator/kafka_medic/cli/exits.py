"""What the command's exit codes mean."""

from __future__ import annotations

from kafka_medic.resources.vocabulary import Verdict

OK = 0
REFUSED = 1
"""`remediation`: nothing was written, because somebody who may said no, or because it would not count."""
ENDED_OTHERWISE = 2
"""`remediation --watch`: the run has ended, and not as Succeeded."""
NO_ANSWER = 3
"""`remediation`: the API server does not answer; `offsets`: the cluster does not."""
UNUSABLE_INPUT = 4
UNUSABLE_PLAN = 2
"""`plan`: any input that cannot be planned."""
INTERRUPTED = 130
"""As shells have it: 128 + SIGINT."""

OF_VERDICT = {Verdict.ALLOW: 0, Verdict.DENY: 1, Verdict.WAIT: 2, Verdict.UNKNOWN: 3}


class UnusableInputError(Exception):
    """The input cannot be used: which file (or option), where in it, what is wrong, and the way out."""

    def __init__(self, where: str, problem: str, way_out: str = "") -> None:
        super().__init__(f"{where}: {problem}" + (f"\n  {way_out}" if way_out else ""))


class RefusedError(Exception):
    """Nothing was done: why, and the way out."""

    def __init__(self, why: str, way_out: str = "") -> None:
        super().__init__(why + (f"\n  {way_out}" if way_out else ""))


class NoAnswerError(Exception):
    """Whoever had to be asked did not answer, so that nothing is known and nothing was done by what follows."""
