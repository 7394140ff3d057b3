"""The admission chain: first every plugin may change an object, then every plugin judges it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clusters.embedded.apiserver.admission.default_tolerations import DefaultTolerationSeconds
from clusters.embedded.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from clusters.embedded.apiserver.admission.node_declared_features import NodeDeclaredFeatureValidator
from clusters.embedded.apiserver.admission.node_restriction import NodeRestriction
from clusters.embedded.apiserver.admission.plugin import Context, Plugin
from clusters.embedded.apiserver.admission.policies.mutating import MutatingAdmissionPolicy
from clusters.embedded.apiserver.admission.policies.validating import ValidatingAdmissionPolicy
from clusters.embedded.apiserver.admission.priority import Priority
from clusters.embedded.apiserver.admission.request import Request
from clusters.embedded.apiserver.admission.resource_quota import ResourceQuota
from clusters.embedded.apiserver.admission.service_account import ServiceAccount
from clusters.embedded.apiserver.admission.taint_nodes import TaintNodesByCondition

# In the order in which a real server calls them.
PLUGINS: Sequence[type[Plugin]] = (
    NamespaceLifecycle,
    ServiceAccount,
    NodeRestriction,
    TaintNodesByCondition,
    Priority,
    DefaultTolerationSeconds,
    NodeDeclaredFeatureValidator,
    MutatingAdmissionPolicy,
    ValidatingAdmissionPolicy,
    ResourceQuota,
)

NAMES: Sequence[str] = tuple(plugin.name for plugin in PLUGINS)
"""The names of all plugins, in their order."""


class Chain:
    """The enabled plugins, in the fixed order.

    By default all are enabled, NodeRestriction included although a real server leaves it off.
    """

    def __init__(
        self,
        context: Context,
        *,
        enable: Iterable[str] = NAMES,
        disable: Iterable[str] = (),
        plugins: Sequence[type[Plugin]] = PLUGINS,
    ) -> None:
        known = [plugin.name for plugin in plugins]
        enabled, disabled = set(enable), set(disable)
        unknown = sorted((enabled | disabled) - set(known))
        if unknown:
            raise ValueError(f"unknown admission plugin {unknown[0]!r}; known: {', '.join(known)}")
        self._plugins = [plugin(context) for plugin in plugins if plugin.name in enabled - disabled]

    def mutate(self, request: Request) -> None:
        """Let each plugin change the object; the first ApiError ends the request."""
        for plugin in self._plugins:
            plugin.mutate(request)
        if request.repeat:
            request.repeated = True
            for plugin in self._plugins:
                plugin.mutate(request)

    def validate(self, request: Request) -> None:
        """Let each plugin judge the final object; the first ApiError ends the request."""
        for plugin in self._plugins:
            plugin.validate(request)
