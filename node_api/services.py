"""Names of the gRPC services between kubelet and plugins.

A plugin lists short names ("v1.DRAPlugin") in its registration; the wire carries full names
("k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"). Only the names are here: importing this module is cheap.
"""

from __future__ import annotations

PLUGIN_TYPE = "DRAPlugin"
"""`type` that a DRA plugin gives in PluginInfo."""

REGISTRATION = "pluginregistration.Registration"
"""Full name of the service on the registration socket."""

DRA_V1 = "v1.DRAPlugin"
DRA_V1BETA1 = "v1beta1.DRAPlugin"
HEALTH_V1 = "v1.DRAResourceHealth"
HEALTH_V1ALPHA1 = "v1alpha1.DRAResourceHealth"

DRA_SERVICES = (DRA_V1, DRA_V1BETA1)
"""Short names that make a plugin usable, in the kubelet's order."""

HEALTH_SERVICES = (HEALTH_V1, HEALTH_V1ALPHA1)
"""Short names of the health services, in the kubelet's order of preference."""

FULL_NAMES = {
    DRA_V1: "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
    DRA_V1BETA1: "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin",
    HEALTH_V1: "v1.DRAResourceHealth",
    HEALTH_V1ALPHA1: "v1alpha1.DRAResourceHealth",
}
"""Short name in `supported_versions` -> full service name on the wire."""

GET_INFO = "GetInfo"
NOTIFY_REGISTRATION_STATUS = "NotifyRegistrationStatus"
NODE_PREPARE_RESOURCES = "NodePrepareResources"
NODE_UNPREPARE_RESOURCES = "NodeUnprepareResources"
NODE_WATCH_RESOURCES = "NodeWatchResources"


def full_method(service: str, method: str) -> str:
    """Return the full method as gRPC sends it, "/<full service name>/<method>".

    `service` is a short name of `FULL_NAMES` or already a full name.
    """
    return f"/{FULL_NAMES.get(service, service)}/{method}"


def split_method(full: str) -> tuple[str, str]:
    """Split "/<service>/<method>" into full service name and method; the reverse of `full_method`."""
    service, _, method = full.removeprefix("/").rpartition("/")
    return service, method
