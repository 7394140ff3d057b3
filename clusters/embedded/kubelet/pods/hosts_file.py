"""What a Pod is called in its network: the host name, and the file /etc/hosts that its containers see."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from clusters.embedded.kubelet.pods import objects
from clusters.embedded.kubelet.pods.objects import Object

PATH: Final = "/etc/hosts"
CLUSTER_DOMAIN: Final = "cluster.local"
_HEADER: Final = "# Kubernetes-managed hosts file"
_LOCAL: Final = (
    "127.0.0.1\tlocalhost",
    "::1\tlocalhost ip6-localhost ip6-loopback",
    "fe00::0\tip6-localnet",
    "fe00::0\tip6-mcastprefix",
    "fe00::1\tip6-allnodes",
    "fe00::2\tip6-allrouters",
)


def hostname(pod: Object) -> str:
    """Host name of the Pod: spec.hostname or the name, at most 63 characters."""
    name = str(pod["spec"].get("hostnameOverride") or pod["spec"].get("hostname") or objects.name(pod))
    return name[:63].rstrip("-.")


def content(pod: Object, ips: tuple[str, ...], host: Path = Path(PATH)) -> str:
    """The file of a Pod; `host` is the node's, which Pods in the network of the node get."""
    if objects.is_host_network(pod):
        own = host.read_text(encoding="utf-8", errors="surrogateescape") if host.exists() else ""
        text = f"{_HEADER} (host network).\n{own}"
    else:
        names = hostname(pod)
        subdomain = pod["spec"].get("subdomain")
        if subdomain and not pod["spec"].get("hostnameOverride"):
            full = f"{names}.{subdomain}.{objects.namespace(pod)}.svc.{CLUSTER_DOMAIN}"
            names = f"{full}\t{names}"
        lines = (f"{_HEADER}.", *_LOCAL, *(f"{ip}\t{names}" for ip in ips))
        text = "".join(f"{line}\n" for line in lines)
    aliases = pod["spec"].get("hostAliases") or []
    if aliases:
        text += "\n# Entries added by HostAliases.\n"
        for alias in aliases:
            names = "\t".join(alias.get("hostnames") or [])
            text += f"{alias.get('ip') or ''}\t{names}\n"
    return text
