"""A real Kubernetes with real Kafka in it, on one machine: what integration tests and the demo stand on."""

from tests.testbed import faults
from tests.testbed.cluster import external_kubeconfig
from tests.testbed.image_transfer import load_image
from tests.testbed.kafka import KafkaDeployment, deploy_kafka, deployed
from tests.testbed.kafka_settings import FACTOR_ONE, Shape
from tests.testbed.kubectl import KubectlError, apply, follow, get, kubectl
from tests.testbed.operator_image import operator_image, spark_image
from tests.testbed.places import NODES, own_state
from tests.testbed.steps import StepFailedError, wait_for

__all__ = [
    "FACTOR_ONE",
    "NODES",
    "KafkaDeployment",
    "KubectlError",
    "Shape",
    "StepFailedError",
    "apply",
    "deploy_kafka",
    "deployed",
    "external_kubeconfig",
    "faults",
    "follow",
    "get",
    "kubectl",
    "load_image",
    "operator_image",
    "own_state",
    "spark_image",
    "wait_for",
]
