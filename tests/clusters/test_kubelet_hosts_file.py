"""The file /etc/hosts of Pods, as kubelets write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clusters.embedded.kubelet.pods.hosts_file import content, hostname

LOCAL = (
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "shop", "uid": "u"}, "spec": spec}


def test_a_pod_finds_itself_by_name() -> None:
    assert content(pod(), ("10.244.0.2",)) == (f"# Kubernetes-managed hosts file.\n{LOCAL}10.244.0.2\tp\n")


def test_a_subdomain_gives_a_full_name() -> None:
    found = content(pod(hostname="web", subdomain="front"), ("10.244.0.2",))
    assert found.endswith("10.244.0.2\tweb.front.shop.svc.cluster.local\tweb\n")


def test_an_override_has_no_domain() -> None:
    made = pod(hostname="web", subdomain="front", hostnameOverride="other.example")
    assert hostname(made) == "other.example"
    assert content(made, ("10.244.0.2",)).endswith("10.244.0.2\tother.example\n")


def test_aliases_come_last() -> None:
    made = pod(hostAliases=[{"ip": "1.2.3.4", "hostnames": ["a.b", "c"]}, {"ip": "5.6.7.8"}])
    assert content(made, ("10.244.0.2",)).endswith(
        "10.244.0.2\tp\n\n# Entries added by HostAliases.\n1.2.3.4\ta.b\tc\n5.6.7.8\t\n"
    )


def test_pods_on_the_network_of_the_node_get_its_file(tmp_path: Path) -> None:
    host = tmp_path / "hosts"
    host.write_text("192.0.2.1 gateway\n")
    made = pod(hostNetwork=True, hostAliases=[{"ip": "1.2.3.4", "hostnames": ["a"]}])
    assert content(made, ("192.0.2.2",), host) == (
        "# Kubernetes-managed hosts file (host network).\n192.0.2.1 gateway\n"
        "\n# Entries added by HostAliases.\n1.2.3.4\ta\n"
    )
    assert content(pod(hostNetwork=True), (), tmp_path / "none") == (
        "# Kubernetes-managed hosts file (host network).\n"
    )
