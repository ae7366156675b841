"""The command lines of the programs that make up the control plane."""

from __future__ import annotations

import json
from pathlib import Path

from tests.testbed import credentials
from tests.testbed.places import (
    API_PORT,
    CONTROL_PLANE_ADDRESS,
    DNS_ADDRESS,
    DNS_DOMAIN,
    NODES,
    POD_RANGE,
    SERVICE_RANGE,
    State,
)

Command = list[str]


def write_settings(state: State) -> None:
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        # Of the accounts that Pods have: those of Kubernetes itself would make it many times as long.
        "rules": [
            {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
            {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
            {"level": "None"},
        ],
    }
    (state.root / "audit-policy.json").write_text(json.dumps(policy))
    proxy = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": NODES[0].name,
        "clusterCIDR": POD_RANGE,
        "clientConnection": {"kubeconfig": str(_kubeconfig(state, credentials.PROXY))},
        # The table's size is the whole machine's and cannot be set from inside a network namespace.
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "iptables": {"minSyncPeriod": "0.2s"},
    }
    (state.root / "kube-proxy.json").write_text(json.dumps(proxy))
    _write_names(state)


def _write_names(state: State) -> None:
    """The name server's settings, and the resolver's of what runs in no Pod."""
    administrator = _kubeconfig(state, "admin")
    # Where nothing leads outside, the answer to a name of the outside is a quick "no".
    (state.root / "Corefile").write_text(f""".:53 {{
    bind {DNS_ADDRESS}
    errors
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
{DNS_DOMAIN}:53 {{
    bind {DNS_ADDRESS}
    errors
    kubernetes {DNS_DOMAIN} {{
        kubeconfig {administrator}
        ttl 1
    }}
}}
""")
    search = f"svc.{DNS_DOMAIN} {DNS_DOMAIN}"
    state.resolver.write_text(f"nameserver {DNS_ADDRESS}\nsearch {search}\noptions ndots:5\n")


def _kubeconfig(state: State, user: str) -> Path:
    return state.kubeconfig(credentials.file_name(user))


def etcd(state: State, folder: Path) -> Command:
    return [
        f"{folder}/etcd",
        f"--data-dir={state.root}/etcd",
        "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
        # The testbed starts empty each time: nothing here has to outlive a power cut.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver(state: State, kubernetes: Path) -> Command:
    keys = state.credentials
    return [
        f"{kubernetes}/kube-apiserver",
        "--etcd-servers=http://127.0.0.1:2379",
        "--bind-address=0.0.0.0",
        f"--secure-port={API_PORT}",
        f"--advertise-address={CONTROL_PLANE_ADDRESS}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        f"--tls-cert-file={keys}/apiserver.crt",
        f"--tls-private-key-file={keys}/apiserver.key",
        f"--client-ca-file={keys}/ca.crt",
        f"--token-auth-file={keys}/tokens.csv",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={keys}/accounts.key",
        f"--service-account-signing-key-file={keys}/accounts.key",
        f"--kubelet-client-certificate={keys}/kubelet-client.crt",
        f"--kubelet-client-key={keys}/kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged=true",
        f"--audit-policy-file={state.root}/audit-policy.json",
        f"--audit-log-path={state.audit_log}",
        # In megabytes. Tests read it as one file, which would begin anew there: an hour of end-to-end tests writes 200.
        "--audit-log-maxsize=2000",
        "--profiling=false",
    ]


def controller_manager(state: State, kubernetes: Path) -> Command:
    configuration = _kubeconfig(state, credentials.CONTROLLER_MANAGER)
    return [
        f"{kubernetes}/kube-controller-manager",
        f"--kubeconfig={configuration}",
        f"--authentication-kubeconfig={configuration}",
        f"--authorization-kubeconfig={configuration}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={state.root}/controller-manager",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={state.credentials}/accounts.key",
        f"--root-ca-file={state.credentials}/ca.crt",
    ]


def scheduler(state: State, kubernetes: Path) -> Command:
    configuration = _kubeconfig(state, credentials.SCHEDULER)
    return [
        f"{kubernetes}/kube-scheduler",
        f"--kubeconfig={configuration}",
        f"--authentication-kubeconfig={configuration}",
        f"--authorization-kubeconfig={configuration}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={state.root}/scheduler",
        "--leader-elect=false",
    ]


def proxy(state: State, kubernetes: Path) -> Command:
    return [f"{kubernetes}/kube-proxy", f"--config={state.root}/kube-proxy.json"]


def coredns(state: State, folder: Path) -> Command:
    return [f"{folder}/coredns", "-conf", f"{state.root}/Corefile"]
