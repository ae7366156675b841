"""Writing and reading records the way a careful application does."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.testbed.steps import granted, wait_for

PATIENCE = 120
"""Seconds for one request of ours to Kafka: more than a busy host ever kept these machines waiting."""


def create_topic(bootstrap: str, name: str, assignment: list[list[int]], config: dict[str, str] | None = None) -> None:
    """A topic with exactly these replicas for each partition."""
    topic = NewTopic(name, num_partitions=len(assignment), replica_assignment=assignment, config=config or {})
    timeout = 30 + len(assignment) // 10  # brokers at ZooKeeper take two minutes for 2,000
    perhaps = False

    def created() -> bool:
        nonlocal perhaps
        admin = AdminClient({"bootstrap.servers": bootstrap, "socket.timeout.ms": 1000 * timeout, "log_level": 0})
        try:
            admin.create_topics([topic], request_timeout=timeout)[name].result(timeout=timeout)
        except TimeoutError:
            perhaps = True  # a broker that has only just started may leave the first request without an answer
            return False
        except KafkaException as problem:
            code = problem.args[0].code()
            if code not in (KafkaError.NOT_CONTROLLER, KafkaError.TOPIC_ALREADY_EXISTS):
                raise
            if code == KafkaError.TOPIC_ALREADY_EXISTS and not perhaps:
                raise
            return code == KafkaError.TOPIC_ALREADY_EXISTS  # else another broker has only just become the controller
        return True

    wait_for(f"the controller to create {name}", created, 30 + timeout)


def delete_topic(bootstrap: str, name: str) -> None:
    gone = KafkaError.UNKNOWN_TOPIC_OR_PART

    def deleted() -> bool:
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        try:
            admin.delete_topics([name])[name].result(timeout=PATIENCE)
        except KafkaException as problem:
            if problem.args[0].code() not in (KafkaError.NOT_CONTROLLER, KafkaError.UNKNOWN, gone):
                raise
            return problem.args[0].code() == gone  # else a controller that changes, as after a broker hung
        return True

    wait_for(f"the controller to delete {name}", deleted, 60)


def write(bootstrap: str, topic: str, values: list[str], partition: int = 0, acks: str = "all") -> int:
    """Write and wait for each acknowledgement. Answers how many were acknowledged."""
    acked = 0

    def delivered(error: KafkaError | None, _: Message) -> None:
        nonlocal acked
        acked += error is None

    producer = Producer({"bootstrap.servers": bootstrap, "acks": acks, "enable.idempotence": acks == "all"})
    for value in values:
        producer.produce(topic, value.encode(), partition=partition, on_delivery=delivered)
    producer.flush(60)
    return acked


def _consumer(bootstrap: str, group: str | None, protocol: str = "classic") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group or f"reader-{uuid.uuid4().hex[:8]}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "allow.auto.create.topics": False,
            "reconnect.backoff.max.ms": 1000,
            "log_level": 0,
        }
        | _membership(protocol)
    )


def _membership(protocol: str) -> dict[str, str | int]:
    """Of the `consumer` protocol (KIP-848) the broker decides how long a session lasts."""
    return {"session.timeout.ms": 10000} if protocol == "classic" else {"group.protocol": protocol}


def read_group(
    bootstrap: str,
    group: str,
    topic: str,
    wanted: int,
    seconds: float = 60,
    *,
    tells_epoch: bool = False,
    protocol: str = "classic",
) -> list[tuple[int, str]]:
    """Join the group, read `wanted` records from where it stands, commit, leave. (offset, value) of each.
    `tells_epoch`: what is committed has the last record's leader epoch, as of consumers that commit by themselves."""
    consumer = _consumer(bootstrap, group, protocol)
    consumer.subscribe([topic])
    last: Message | None = None
    found: list[tuple[int, str]] = []
    end = granted() + seconds
    try:
        while len(found) < wanted and granted() < end:
            message = consumer.poll(0.5)
            if message is None or message.error():
                continue
            found.append((message.offset(), message.value().decode()))
            last = message
        if last is not None and tells_epoch:
            consumer.commit(message=last, asynchronous=False)
        elif last is not None:
            consumer.commit(offsets=[TopicPartition(topic, 0, found[-1][0] + 1)], asynchronous=False)
    finally:
        consumer.close()
    return found


def read_from(bootstrap: str, topic: str, start: int, wanted: int, seconds: float) -> list[tuple[int, str]]:
    """Read partition 0 from `start` without a group; what did not come within `seconds` could not be read."""
    consumer = _consumer(bootstrap, None)
    consumer.assign([TopicPartition(topic, 0, start)])
    found: list[tuple[int, str]] = []
    end = granted() + seconds
    try:
        while len(found) < wanted and granted() < end:
            message = consumer.poll(0.5)
            if message is not None and not message.error():
                found.append((message.offset(), message.value().decode()))
    finally:
        consumer.close()
    return found


def commit_offset(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """Set the offset of partition 0 of a group without members; its coordinator may still be loading, or not exist
    yet. Each try has a client of its own (see forget_group): one that was told three times that there is no coordinator
    never asks again and never fails either (librdkafka 2.16)."""
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])

    def taken() -> bool:
        with AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}) as admin:
            try:
                answer = admin.alter_consumer_group_offsets([wanted])[group].result(timeout=10)
            except TimeoutError:
                return False
            return all(tp.error is None for tp in answer.topic_partitions)

    wait_for(f"{group} to have committed", taken, 60, every=0.1)


def forget_group(bootstrap: str, group: str) -> None:
    """Delete a group without members and all that it has committed. The client is gone afterwards: one that has asked a
    coordinator can abort the process once that broker goes away (librdkafka#3663)."""
    with AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}) as admin:
        admin.delete_consumer_groups([group])[group].result(timeout=PATIENCE)


def forget_records(bootstrap: str, topic: str, before: int) -> None:
    """The log of partition 0 begins there from now on, as once retention has passed what was before."""
    admin, tp = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}), TopicPartition(topic, 0, before)
    (told,) = admin.delete_records([tp]).values()
    assert told.result(timeout=PATIENCE).low_watermark == before


@contextlib.contextmanager
def joined(bootstrap: str, group: str, topic: str, client: str, protocol: str = "classic") -> Iterator[None]:
    """A member of the group, by that client id, that has its partitions and commits nothing."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": client,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "log_level": 0,
    }
    consumer = Consumer(settings | _membership(protocol))
    assigned, over = threading.Event(), threading.Event()

    def stay() -> None:
        while not over.is_set():
            consumer.poll(0.2)

    staying = threading.Thread(target=stay)
    try:
        # Told by the thread that polls: a consumer lets nobody else in while that does.
        consumer.subscribe([topic], on_assign=lambda *_: assigned.set())
        staying.start()
        if not assigned.wait(60):
            raise AssertionError(f"{client} did not get into {group} within 60 s")
        yield
    finally:
        over.set()
        staying.join(10)
        consumer.close()


@contextlib.contextmanager
def transaction(bootstrap: str, group: str, topic: str, offset: int) -> Iterator[None]:
    """An application that reads as the group and writes, with one transaction open as long as this lasts: a record, and
    an offset of partition 0 that is committed with it."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": uuid.uuid4().hex, "log_level": 0})
    consumer = _consumer(bootstrap, group)
    try:
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(topic, b"of a transaction", partition=0)
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], metadata, 60)
        producer.flush(60)
        yield
        producer.commit_transaction(60)
    finally:
        consumer.close()


def committed(bootstrap: str, group: str, topic: str) -> int:
    consumer = _consumer(bootstrap, group)
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE)
        return int(found.offset)
    finally:
        consumer.close()


def log_end(bootstrap: str, topic: str) -> int:
    consumer = _consumer(bootstrap, None)
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE)[1])
    finally:
        consumer.close()


def leader(bootstrap: str, topic: str) -> int:
    """-1: nobody."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    return int(admin.list_topics(topic, timeout=PATIENCE).topics[topic].partitions[0].leader)


@dataclass
class Traffic:
    """An idempotent acks=all producer and a consumer that run until stopped. After `stop()`, `lost` and `doubled` say
    what became of the acknowledged records, and `not_leader` how many produce requests met a broker that led no more,
    which the client itself sends again; it is told by the client's own log (`debug=msg`), if `counts_not_leader`."""

    bootstrap: str
    topic: str
    counts_not_leader: bool = False
    not_leader: int = 0
    acked: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    read: Counter[str] = field(default_factory=Counter)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        self._threads = [
            threading.Thread(target=self._produce, daemon=True),
            threading.Thread(target=self._consume, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float = 90) -> None:
        """Stop producing, wait for every acknowledgement, and read on until all of them were read or time is up."""
        self._stopping.set()
        self._threads[0].join(seconds)
        end = granted() + seconds
        while granted() < end and self.lost:
            time.sleep(0.2)
        self._done = True
        self._threads[1].join(seconds)

    @property
    def lost(self) -> set[str]:
        return self.acked - set(self.read)

    @property
    def doubled(self) -> list[str]:
        return [value for value, times in self.read.items() if times > 1]

    _done: bool = False

    def _produce(self) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            value = message.value().decode()
            if error is None:
                self.acked.add(value)
            else:
                self.failed.append(f"{value}: {error}")

        settings = {
            "bootstrap.servers": self.bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 20,
            "queue.buffering.max.messages": 10000,
        }
        if self.counts_not_leader:
            told = logging.Logger("producer")
            told.addFilter(self._count)
            producer = Producer(settings | {"debug": "msg"}, logger=told)
        else:
            producer = Producer(settings | {"log_level": 0})
        number = 0
        while not self._stopping.is_set():
            try:
                producer.produce(self.topic, f"record-{number}".encode(), on_delivery=delivered)
            except BufferError:
                producer.poll(0.1)  # backpressure: the queue is bounded, so wait for room
                continue
            except KafkaException as problem:
                self.failed.append(str(problem))
                break
            number += 1
            producer.poll(0)
            self._stopping.wait(0.005)
        producer.flush(60)

    def _count(self, line: logging.LogRecord) -> bool:
        text = line.getMessage()
        self.not_leader += "encountered error" in text and "Not leader for partition" in text
        return False

    def _consume(self) -> None:
        consumer = _consumer(self.bootstrap, None)
        partitions: list[int] = []

        def known() -> bool:
            # A broker at ZooKeeper may not have heard of a topic that the controller has just made.
            partitions[:] = consumer.list_topics(self.topic, timeout=PATIENCE).topics[self.topic].partitions
            return bool(partitions)

        wait_for(f"a broker to know {self.topic}", known, 60)
        consumer.assign([TopicPartition(self.topic, p, 0) for p in partitions])
        try:
            while not self._done:
                message = consumer.poll(0.2)
                if message is not None and not message.error():
                    self.read[message.value().decode()] += 1
        finally:
            consumer.close()


@dataclass
class Transactions(Traffic):
    """The same with transactions of a few records each. The application aborts every fourth. `withdrawn`: the records
    of aborted ones, which nobody may read who reads what is committed."""

    withdrawn: set[str] = field(default_factory=set)

    @property
    def read_though_withdrawn(self) -> set[str]:
        return self.withdrawn & set(self.read)

    def _produce(self) -> None:
        settings = {"bootstrap.servers": self.bootstrap, "transactional.id": uuid.uuid4().hex, "log_level": 0}
        producer = Producer(settings)
        _until_done(producer.init_transactions)
        number = 0
        while not self._stopping.is_set():
            values = {f"transaction-{number}-{n}" for n in range(5)}
            withdrawn = number % 4 == 3
            try:
                producer.begin_transaction()
                for value in values:
                    producer.produce(self.topic, value.encode())
                if withdrawn:
                    producer.flush(PATIENCE)
                _until_done(producer.abort_transaction if withdrawn else producer.commit_transaction)
            except KafkaException as problem:
                if not problem.args[0].txn_requires_abort():
                    self.failed.append(str(problem))
                    return
                withdrawn = True
                _until_done(producer.abort_transaction)
            (self.withdrawn if withdrawn else self.acked).update(values)
            number += 1
            self._stopping.wait(0.02)


def _until_done(step: Callable[[float], None]) -> None:
    """A step of a transaction, asked for again while what became of it is not known."""
    end = granted() + PATIENCE
    while True:
        try:
            return step(30)
        except KafkaException as problem:
            if not problem.args[0].retriable() or granted() > end:
                raise


@contextlib.contextmanager
def flowing(bootstrap: str, topic: str) -> Iterator[Traffic]:
    """Traffic for as long as the block lasts; afterwards it can be judged."""
    traffic = Traffic(bootstrap, topic)
    traffic.start()
    try:
        yield traffic
    finally:
        traffic.stop()


def topic_setting(bootstrap: str, topic: str, setting: str) -> str:
    """A setting of a topic as the brokers have it."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    with AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}) as admin:
        (answer,) = admin.describe_configs([resource]).values()
        return str(answer.result(timeout=PATIENCE)[setting].value)


@dataclass
class Steady:
    """Writes to each partition at its rate, in bytes per second and records of one size, until the block ends."""

    bootstrap: str
    topic: str
    rates: Sequence[float]
    size: int
    failed: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def lasting(self) -> Iterator[None]:
        over = threading.Event()
        thread = threading.Thread(target=self._write, args=(over,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(90)

    def _write(self, over: threading.Event) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "log_level": 0})
        began, written = time.monotonic(), [0] * len(self.rates)
        while not over.wait(0.5):
            for partition, rate in enumerate(self.rates):
                while written[partition] < rate * (time.monotonic() - began):
                    record = b"x" * self.size
                    try:
                        producer.produce(self.topic, record, partition=partition, on_delivery=self._delivered)
                    except BufferError as problem:
                        self.failed.append(f"the machine is too slow for these rates: {problem}")
                        return
                    written[partition] += self.size
            producer.flush(60)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
