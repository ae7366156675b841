"""What the operator takes for true of a cluster's metadata, and why. No other module decides it a second time.

Terms
  account      what one broker, asked alone, reports of a topic or a partition. A broker that does not answer has none.
  voter        a registered broker, silent or not. An unregistered broker that answers (a zombie) is no voter.
  majority     the same account from more than half of the voters.
  controller   the active controller. Its account is the metadata answer of the broker in the same process. KRaft
               controllers that are no brokers give none: no request of Kafka's protocol reads their metadata.
  record       ZooKeeper's own znodes of a topic, read after the accounts. They are the metadata itself.
  incarnation  a topic id (KIP-516). A deleted and recreated topic is another incarnation under the same name.
  current      equal to the committed metadata. `behind`: equal to an earlier state of it.

Rules
  1. A record decides alone: the controller writes it before any broker can learn of the change.
  2. Accounts that are all the same are not disputed.
  3. Which incarnation exists, and every other dispute without an order: a majority decides, unless the controller's
     account differs. Without a majority the controller's account decides, if a second broker gives the same.
  4. Leader epochs only rise (KIP-101), within one incarnation. Two incarnations' epochs are never compared.
     Leader and epoch follow rule 3, but a majority with a higher epoch outvotes the controller's account, since no
     broker learns what is not committed. Likewise a majority gives way to a newer account that the controller and a
     second broker give.
  5. An account ahead of what rule 4 decides makes it undecided. A larger number alone decides nothing.
  6. ISR and replicas count only in accounts whose leader and epoch are the decided ones. Rule 3 decides among them.
  7. What these rules do not decide is unknown (None), and is reported with every account.

Invariants, checked over all small worlds in tests/property/cluster/test_authority.py
  A. While more than half of the voters are current, the answer is the committed state or unknown.
  B. While the controller's account is current and no account is invented, the answer is the committed state or unknown.
  C. What is decided in a dispute has two witnesses at least: a majority, or the controller and another broker.
  D. While more than half of the voters are current and the others are behind in the same incarnation or in an earlier
     one, the answer is known. The controller's account may only be behind within the incarnation.
  E. An account that is missing never turns one answer into another: while accounts differ, the answer stays or becomes
     unknown. (Where all that are left are the same, `witnessed` shows how few they are.)

The single fault that rule 3 guards against: a broker whose metadata loader hangs goes on with heartbeats and fetches,
so it stays registered and in sync, even where the same process is the active controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

T = TypeVar("T")

GONE: Final = "gone"
"""Instead of a topic id: the topic is not there."""
UNNAMED: Final = "unnamed"
"""Instead of a topic id: the topic is there, and its broker reports no ids (before KIP-516)."""


class Leadership(NamedTuple):
    """Who leads a partition (-1: nobody) since which leader epoch (None: not reported)."""

    leader: int
    epoch: int | None

    def after(self, other: Leadership) -> bool:
        """Whether this is newer, within one incarnation."""
        return _rank(self.epoch) > _rank(other.epoch)


def weigh(accounts: Mapping[int, T], controller: int | None, voters: int) -> T | None:
    """Rules 2 and 3. `accounts` by broker; None: undecided."""
    by_account = _by_account(accounts)
    if len(by_account) == 1:
        return next(iter(by_account))
    own = accounts.get(controller) if controller is not None else None
    majority = _majority(by_account, voters)
    if majority is not None:
        return majority if own is None or own == majority else None
    return own if own is not None and len(by_account[own]) > 1 else None


def incarnation(accounts: Mapping[int, str], controller: int | None, voters: int) -> str | None:
    """Which topic id exists under a name, GONE or UNNAMED; None: undecided."""
    named = set(accounts.values()) - {GONE, UNNAMED}
    if len(named) == 1:  # a broker that reports no id contradicts nobody about it
        accounts = {b: next(iter(named)) if a == UNNAMED else a for b, a in accounts.items()}
    return weigh(accounts, controller, voters)


def leadership(accounts: Mapping[int, Leadership], controller: int | None, voters: int) -> Leadership | None:
    """Rules 2, 4 and 5, for accounts of one incarnation; None: undecided."""
    by_account = _by_account(accounts)
    if len(by_account) == 1:
        return next(iter(by_account))
    own = accounts.get(controller) if controller is not None else None
    majority = _majority(by_account, voters)
    found = majority
    if majority is None or (own is not None and own.after(majority)):
        found = own if own is not None and len(by_account[own]) > 1 else None
    elif own not in (None, majority) and not majority.after(own):
        found = None
    return None if found is None or any(other.after(found) for other in by_account) else found


def membership(
    accounts: Mapping[int, frozenset[int]], controller: int | None, described: frozenset[int]
) -> tuple[frozenset[int], frozenset[int]]:
    """(registered, not known whether) with KRaft, whose brokers list the unfenced ones. `accounts`: the members that
    each broker names; `described`: what the first broker that answered names.

    A broker's word on itself does not count where two others agree, or the controller: one that is fenced goes on to
    name itself.
    """
    everybody = frozenset.union(described, *accounts.values())
    if not accounts:
        return described, frozenset()
    registered, unsure = set(), set()
    for broker in everybody:
        votes = {witness: broker in members for witness, members in accounts.items()}
        found = weigh(votes, controller, len(everybody))
        if found is None:
            others = {witness: vote for witness, vote in votes.items() if witness != broker}
            enough = len(others) > 1 or controller in others
            found = next(iter(others.values())) if enough and len(set(others.values())) == 1 else None
        if len(accounts) == 1 and (broker in described) != found:
            found = None  # one account, and another broker's contradicts it
        if found is None:
            unsure.add(broker)
        elif found:
            registered.add(broker)
    return frozenset(registered), frozenset(unsure)


def _by_account(accounts: Mapping[int, T]) -> dict[T, set[int]]:
    """The brokers that give each account."""
    found: dict[T, set[int]] = {}
    for broker, account in accounts.items():
        found.setdefault(account, set()).add(broker)
    return found


def _majority(by_account: Mapping[T, set[int]], voters: int) -> T | None:
    return next((account for account, who in by_account.items() if len(who) * 2 > voters), None)


def _rank(epoch: int | None) -> int:
    return -1 if epoch is None else epoch
