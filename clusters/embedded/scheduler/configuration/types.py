"""The fields of KubeSchedulerConfiguration and of the plugins' arguments (kubescheduler.config.k8s.io/v1).

Source: kube-scheduler v0.37.2 `config/v1/types.go`, `types_pluginargs.go`, component-base v0.37.2
`config/v1alpha1/types.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Type = str
"""string, bool, int32, int64, float32, duration, bytes, any, or the name of a struct; `[]` before it: a list."""
Struct = Mapping[str, Type]

GROUP_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"
_META: Final = {"kind": "string", "apiVersion": "string"}
_POINTS: Final = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
    "multiPoint",
    "placementGenerate",
    "placementScore",
    "podGroupPostFilter",
)

STRUCTS: Final[Mapping[str, Struct]] = {
    KIND: {
        **_META,
        "parallelism": "int32",
        "leaderElection": "LeaderElectionConfiguration",
        "clientConnection": "ClientConnectionConfiguration",
        "enableProfiling": "bool",
        "enableContentionProfiling": "bool",
        "percentageOfNodesToScore": "int32",
        "podInitialBackoffSeconds": "int64",
        "podMaxBackoffSeconds": "int64",
        "profiles": "[]KubeSchedulerProfile",
        "extenders": "[]Extender",
        "delayCacheUntilActive": "bool",
    },
    "LeaderElectionConfiguration": {
        "leaderElect": "bool",
        "leaseDuration": "duration",
        "renewDeadline": "duration",
        "retryPeriod": "duration",
        "resourceLock": "string",
        "resourceName": "string",
        "resourceNamespace": "string",
    },
    "ClientConnectionConfiguration": {
        "kubeconfig": "string",
        "acceptContentTypes": "string",
        "contentType": "string",
        "qps": "float32",
        "burst": "int32",
    },
    "KubeSchedulerProfile": {
        "schedulerName": "string",
        "percentageOfNodesToScore": "int32",
        "plugins": "Plugins",
        "pluginConfig": "[]PluginConfig",
    },
    "Plugins": dict.fromkeys(_POINTS, "PluginSet"),
    "PluginSet": {"enabled": "[]Plugin", "disabled": "[]Plugin"},
    "Plugin": {"name": "string", "weight": "int32"},
    "PluginConfig": {"name": "string", "args": "any"},
    "Extender": {
        "urlPrefix": "string",
        "filterVerb": "string",
        "preemptVerb": "string",
        "prioritizeVerb": "string",
        "weight": "int64",
        "bindVerb": "string",
        "enableHTTPS": "bool",
        "tlsConfig": "ExtenderTLSConfig",
        "httpTimeout": "duration",
        "nodeCacheCapable": "bool",
        "managedResources": "[]ExtenderManagedResource",
        "ignorable": "bool",
    },
    "ExtenderTLSConfig": {
        "insecure": "bool",
        "serverName": "string",
        "certFile": "string",
        "keyFile": "string",
        "caFile": "string",
        "certData": "string",
        "keyData": "string",
        "caData": "string",
    },
    "ExtenderManagedResource": {"name": "string", "ignoredByScheduler": "bool"},
    "DynamicResourcesArgs": {**_META, "filterTimeout": "duration", "bindingTimeout": "duration"},
    "DefaultPreemptionArgs": {
        **_META,
        "minCandidateNodesPercentage": "int32",
        "minCandidateNodesAbsolute": "int32",
    },
    "InterPodAffinityArgs": {
        **_META,
        "hardPodAffinityWeight": "int32",
        "ignorePreferredTermsOfExistingPods": "bool",
    },
    "NodeResourcesFitArgs": {
        **_META,
        "ignoredResources": "[]string",
        "ignoredResourceGroups": "[]string",
        "scoringStrategy": "ScoringStrategy",
    },
    "ScoringStrategy": {
        "type": "string",
        "resources": "[]ResourceSpec",
        "requestedToCapacityRatio": "RequestedToCapacityRatioParam",
    },
    "RequestedToCapacityRatioParam": {"shape": "[]UtilizationShapePoint"},
    "UtilizationShapePoint": {"utilization": "int32", "score": "int32"},
    "ResourceSpec": {"name": "string", "weight": "int64"},
    "NodeResourcesBalancedAllocationArgs": {**_META, "resources": "[]ResourceSpec"},
    "PodTopologySpreadArgs": {**_META, "defaultConstraints": "any", "defaultingType": "string"},
    "VolumeBindingArgs": {**_META, "bindTimeoutSeconds": "int64", "shape": "[]UtilizationShapePoint"},
    "NodeAffinityArgs": {**_META, "addedAffinity": "any"},
}
GO_NAMES: Final = {"duration": "string", "any": "", **{name: f"v1.{name}" for name in STRUCTS}}
"""Types whose name in error texts differs."""
