"""The command's exit codes, one set for every subcommand."""

from __future__ import annotations

from kafka_medic.resources.vocabulary import Verdict

OK, REFUSED, NOT_YET, NO_ANSWER, UNUSABLE_INPUT, INTERRUPTED = 0, 1, 2, 3, 4, 130
MEANINGS = {
    OK: "done, or the guards allow it",
    REFUSED: "refused: a guard denies it, a right is missing, or a plan fails its check",
    NOT_YET: "not now: a guard waits, or with --watch the run did not end as asked",
    NO_ANSWER: "unknown: the API server or Kafka did not answer, or a guard lacks data",
    UNUSABLE_INPUT: "wrong usage, or unusable input",
    INTERRUPTED: "interrupted (Ctrl-C)",
}
EPILOG = "exit codes:\n" + "".join(f"  {code:<4} {meaning}\n" for code, meaning in MEANINGS.items())
"""What the --help of every subcommand ends with."""

OF_VERDICT = {Verdict.ALLOW: OK, Verdict.DENY: REFUSED, Verdict.WAIT: NOT_YET, Verdict.UNKNOWN: NO_ANSWER}


class UnusableInputError(Exception):
    """The input cannot be used: which file (or option), where in it, what is wrong, and the way out."""

    def __init__(self, where: str, problem: str, way_out: str = "") -> None:
        super().__init__(f"{where}: {problem}" + (f"\n  {way_out}" if way_out else ""))


class RefusedError(Exception):
    """Nothing was done: why, and the way out."""

    def __init__(self, why: str, way_out: str = "") -> None:
        super().__init__(why + (f"\n  {way_out}" if way_out else ""))


class NoAnswerError(Exception):
    """The API server or Kafka did not answer: nothing is known, and nothing was done by what follows."""

    def __init__(self, why: str, way_out: str = "") -> None:
        super().__init__(why + (f"\n  {way_out}" if way_out else ""))
