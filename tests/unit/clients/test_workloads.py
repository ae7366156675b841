"""Only the very workload that was named is scaled, from what it was seen to be, by its subresource alone."""

from __future__ import annotations

import pytest

from kafka_medic.clients.failures import FailureKind, ReadFailed, WriteFailed
from kafka_medic.clients.kubernetes_api import ApiFailure
from kafka_medic.clients.workloads import ScaledWorkloads
from kafka_medic.cluster.workloads import Workload
from kafka_medic.resources.vocabulary import WorkloadKind
from tests.simulation.api import SimApi

PATH = "/apis/apps/v1/namespaces/ns/statefulsets/shop/scale"


@pytest.fixture
def api() -> SimApi:
    found = SimApi()
    body = {"metadata": {"name": "scale", "uid": "u1"}, "spec": {"replicas": 2}, "status": {"replicas": 1}}
    found.put(PATH.removesuffix("/scale"), body)
    return found


def scale(api, uid="u1", before=2, after=0):
    ScaledWorkloads(api, "ns").scale(WorkloadKind.STATEFUL_SET, "shop", uid, before, after)
    return api.objects[PATH]["spec"].get("replicas", 0)


def test_read_by_its_scale_which_leaves_out_a_zero(api):
    workloads = ScaledWorkloads(api, "ns")
    assert workloads.read(WorkloadKind.STATEFUL_SET, "shop") == Workload("u1", 2, 1)
    assert workloads.read(WorkloadKind.DEPLOYMENT, "shop") == Workload(None), "there is none of that name"
    api.objects[PATH] |= {"spec": {}, "status": {}}
    assert workloads.read(WorkloadKind.STATEFUL_SET, "shop") == Workload("u1", 0, 0)


def test_scaled_once_and_another_of_its_name_left_alone(api):
    assert scale(api, uid="another") == 2
    assert scale(api) == 0
    version = api.objects[PATH]["metadata"]["resourceVersion"]
    assert scale(api) == 0
    assert api.objects[PATH]["metadata"]["resourceVersion"] == version, "it is so already"


def test_what_somebody_has_scaled_since_is_not_overwritten(api):
    with pytest.raises(WriteFailed, match=r"has spec\.replicas 2 \(planned from: 5\)") as refusal:
        scale(api, before=5)
    assert refusal.value.kind is FailureKind.REFUSED
    read = api.get

    def and_then_somebody_scales(path, query=None):
        found = read(path, query)
        api.touch(path)["spec"]["replicas"] = 3
        return found

    api.get = and_then_somebody_scales
    with pytest.raises(WriteFailed) as refusal:
        scale(api)
    assert api.objects[PATH]["spec"]["replicas"] == 3


@pytest.mark.parametrize(("status", "kind"), [(403, FailureKind.AUTHORIZATION), (500, FailureKind.UNREACHABLE)])
def test_a_failure_says_whose_it_is(api, status, kind):
    def get(path, query=None):
        raise ApiFailure(status, "said the API server")

    api.get = get
    with pytest.raises(ReadFailed, match="StatefulSet shop") as refusal:
        ScaledWorkloads(api, "ns").read(WorkloadKind.STATEFUL_SET, "shop")
    assert refusal.value.kind is kind
    with pytest.raises(WriteFailed) as refused:
        scale(api)
    assert refused.value.kind is kind
