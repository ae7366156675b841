"""What a page of metrics is understood to say, in each dialect, and what it is not taken for."""

from __future__ import annotations

import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafka_medic.clients.exporter import Sample
from kafka_medic.clients.failures import FailureKind, ReadFailed
from kafka_medic.cluster.snapshot import ClientSoftware
from kafka_medic.observe.metrics import MAX_CLIENTS, BrokerSigns, MetricsProbe, read_page, wanted

PLAIN = """
kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec",} 5000.0
kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec",topic="orders",} 4000.0
kafka_server_BrokerTopicMetrics_Count{name="ReplicationBytesInPerSec",} 9.0
kafka_server_BrokerTopicMetrics_OneMinuteRate{name="BytesInPerSec",} 12.5
kafka_server_BrokerTopicMetrics_OneMinuteRate{name="BytesOutPerSec",} 99.0
kafka_server_KafkaServer_Value{name="BrokerState",} 3.0
kafka_server_KafkaServer_Value{name="linux-disk-read-bytes",} 4096.0
kafka_log_LogManager_Value{name="remainingLogsToRecover",dir="/a",} 2.0
kafka_log_LogManager_Value{name="remainingLogsToRecover",dir="/b",} 1.0
kafka_log_LogManager_Value{name="remainingSegmentsToRecover",dir="/a",threadNum="0",} 7.0
kafka_log_LogManager_Value{name="OfflineLogDirectoryCount",} 0.0
kafka_server_socket_server_metrics_connections{clientSoftwareName="apache-kafka-java",clientSoftwareVersion="3.9.1",listener="A",networkProcessor="0",} 2.0
kafka_server_socket_server_metrics_connections{clientSoftwareName="apache-kafka-java",clientSoftwareVersion="3.9.1",listener="A",networkProcessor="1",} 1.0
kafka_server_socket_server_metrics_connections{clientSoftwareName="librdkafka",clientSoftwareVersion="2.3.0",listener="A",networkProcessor="0",} 1.0
kafka_server_socket_server_metrics_connections{clientSoftwareName="gone",clientSoftwareVersion="1",listener="A",networkProcessor="0",} 0.0
kafka_server_app{version="3.9.1",} 1.0
kafka_server_app_info_StartTimeMs{id="0",} 1.79e12
"""  # noqa: E501
STRIMZI = """
kafka_server_brokertopicmetrics_bytesin_total 5000.0
kafka_server_brokertopicmetrics_bytesin_total{topic="orders"} 4000.0
kafka_server_brokertopicmetrics_bytesout_total 77.0
kafka_server_kafkaserver_brokerstate 3.0
kafka_log_logmanager_remaininglogstorecover{dir="/a"} 2.0
kafka_log_logmanager_remaininglogstorecover{dir="/b"} 1.0
kafka_log_logmanager_remainingsegmentstorecover{dir="/a",threadNum="0"} 7.0
kafka_server_socket_server_metrics_connections_software{clientSoftwareName="apache-kafka-java",clientSoftwareVersion="3.9.1",listener="A",networkProcessor="0"} 3.0
kafka_server_socket_server_metrics_connections_software{clientSoftwareName="librdkafka",clientSoftwareVersion="2.3.0",listener="A",networkProcessor="0"} 1.0
kafka_server_app_info_version{id="0",version="3.9.1"} 1.0
"""  # noqa: E501


def samples(text):
    lines = [line for line in text.splitlines() if wanted(line.lower().encode())]
    return [
        Sample(s.name.lower(), {k.lower(): v for k, v in s.labels.items()}, s.value)
        for family in text_string_to_metric_families("\n".join(lines) + "\n")
        for s in family.samples
    ]


def page(text):
    return read_page(samples(text))


@pytest.mark.parametrize("text", [PLAIN, STRIMZI, PLAIN.lower()])
def test_every_dialect_says_the_same(text):
    read = page(text)
    assert (read.bytes_in, read.state, read.remaining_logs, read.remaining_segments) == (5000, 3, 3, 7)
    assert read.version == "3.9.1"
    assert read.clients == (ClientSoftware("apache-kafka-java", "3.9.1", 3), ClientSoftware("librdkafka", "2.3.0", 1))
    assert read.bytes_in_last_minute == (None if text is STRIMZI else 12.5)


def test_single_topics_are_not_even_looked_at():
    assert not wanted(b'kafka_server_brokertopicmetrics_count{name="bytesinpersec",topic="orders",} 1')
    assert not wanted(b"jvm_memory_used_bytes 1")


def test_what_a_page_does_not_hold_is_not_known():
    read = page("kafka_server_kafkaserver_brokerstate 3\n")
    assert (read.bytes_in, read.bytes_in_last_minute, read.remaining_logs, read.version, read.clients) == (None,) * 5


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1"])
def test_what_is_no_quantity_is_not_known(value):
    read = page(
        f"kafka_server_brokertopicmetrics_bytesin_total {value}\nkafka_log_logmanager_remaininglogstorecover {value}\n"
        f"kafka_server_kafkaserver_brokerstate {value}\nkafka_server_app_info{{version='4.3.1'}} 1\n".replace("'", '"')
    )
    assert (read.bytes_in, read.remaining_logs, read.state, read.recovering) == (None,) * 4


def test_two_answers_to_one_question_are_none():
    line = 'kafka_server_brokertopicmetrics_bytesin_total{{a="{0}"}} {0}\n'
    assert page(line.format(1) + line.format(2) + "kafka_server_kafkaserver_brokerstate 3\n").bytes_in is None


@pytest.mark.parametrize("text", ["", "jvm_threads 1\n", "kafka_server_kafkaserver_clusterid 1\n"])
def test_a_page_without_kafka_is_a_failed_read(text):
    with pytest.raises(ReadFailed, match="no Kafka metric"):
        page(text)


@pytest.mark.parametrize(
    ("state", "logs", "recovering"),
    [(2, None, True), (3, None, False), (3, 0, False), (1, 4, True), (1, 0, None), (0, None, None), (6, None, False)],
)
def test_recovering(state, logs, recovering):
    left = "" if logs is None else f"kafka_log_logmanager_remaininglogstorecover {logs}\n"
    assert page(f"kafka_server_kafkaserver_brokerstate {state}\n{left}").recovering is recovering


def test_a_client_cannot_crowd_out_the_others_or_write_into_the_status():
    line = (
        'kafka_server_socket_server_metrics_connections{{clientSoftwareName="{0}",clientSoftwareVersion="{0}"}} {1}\n'
    )
    many = "".join(line.format(f"x{n}", 1) for n in range(500))
    bad = line.format("a\\nb", 3) + line.format("y" * 200, 3) + line.format("", 3)
    clients = page(many + bad + line.format("real", 50)).clients
    assert len(clients) == MAX_CLIENTS
    assert ClientSoftware("real", "real", 50) in clients
    assert all("\n" not in c.name and len(c.name) < 129 for c in clients)


# The probe


class Exporters:
    """Pages that a test changes, and a clock that it moves."""

    def __init__(self, **texts):
        self.pages = {int(b[1:]): text for b, text in texts.items()}
        self.time = 0.0
        self.probe = MetricsProbe(9404, 5.0, self.scrape, lambda: self.time)

    def scrape(self, addresses, _wanted, _seconds):
        assert set(addresses.values()) == {(f"h{b}", 9404) for b in addresses}
        return {b: t if isinstance(t, ReadFailed) else samples(t) for b, t in self.pages.items()}

    def read(self):
        return self.probe.begin({b: f"h{b}" for b in self.pages})()

    def rate(self, count, at):
        self.time = at
        self.pages[1] = f"kafka_server_brokertopicmetrics_bytesin_total {count}\n"
        return self.read()[1].bytes_in_rate


def test_a_rate_needs_two_pages_and_is_taken_over_ten_seconds_or_more():
    exporters = Exporters(b1="")
    assert exporters.rate(1000, 0) is None
    assert exporters.rate(1000, 0.05) is None, "of moments nothing follows"
    assert exporters.rate(2000, 10) == 100
    assert exporters.rate(2000, 10.05) == pytest.approx(100)
    assert exporters.rate(2000, 25) == 0
    assert exporters.rate(2300, 40) == 20


def test_a_counter_that_goes_back_is_a_broker_that_began_anew():
    exporters = Exporters(b1="")
    exporters.rate(1000, 0)
    assert exporters.rate(10, 15) is None
    assert exporters.rate(160, 30) == 10


def test_the_exporters_own_rate_until_there_is_one():
    exporters = Exporters(b1=PLAIN)
    assert exporters.read()[1].bytes_in_rate == 12.5
    exporters.time = 20
    assert exporters.read()[1].bytes_in_rate == 0


def test_one_exporter_that_fails_is_named_and_all_of_them_are_a_failed_read():
    refused = ReadFailed(FailureKind.UNREACHABLE, "refused")
    answer = Exporters(b1=PLAIN, b2=refused).read()
    assert isinstance(answer[1], BrokerSigns)
    assert answer[2] is refused
    with pytest.raises(ReadFailed, match="broker 2: Unreachable: refused"):
        Exporters(b1="", b2=refused).read()


def test_a_reader_that_hangs_does_not_hold_up_the_turn():
    stop = threading.Event()
    probe = MetricsProbe(9404, -1.0, lambda *_: stop.wait(10) and {})
    with pytest.raises(ReadFailed, match="did not answer within"):
        probe.begin({1: "h1"})()
    stop.set()
