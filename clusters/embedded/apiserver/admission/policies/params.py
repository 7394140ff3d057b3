"""The parameters of a binding (apiserver v0.37.2 `pkg/admission/plugin/policy/generic`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clusters.embedded.apiserver.auth.reader import Reader
from clusters.embedded.apiserver.resources import Served
from clusters.embedded.apiserver.served import Resources
from clusters.embedded.apiserver.storage import Object
from clusters.embedded.apiserver.views import from_storage
from dra_api import label_selector

Spec = Mapping[str, Any]


class ConfigurationError(Exception):
    """A policy or binding that cannot be carried out."""


def find_param_kind(policy: Spec, resources: Resources) -> Served | None:
    """What the parameters of a policy are; None without any. Raises ConfigurationError."""
    kind = policy.get("paramKind")
    if kind is None:
        return None
    group, _, version = str(kind.get("apiVersion", "")).rpartition("/")
    served = resources.find_kind(group, version, str(kind.get("kind", "")))
    if served is None or "list" not in served.resource.verbs:
        shown = f"{group}/{version}, Kind={kind.get('kind', '')}"
        raise ConfigurationError(f"failed to find resource referenced by paramKind: '{shown}'")
    return served


def collect_params(
    kind: Served | None, reference: Spec | None, namespace: str, reader: Reader
) -> Sequence[Object | None]:
    """The parameters for each of which a policy is evaluated: None where there are no parameters.

    Raises ConfigurationError.
    """
    if kind is None or reference is None:
        return [None]
    resource = kind.resource
    where = ""
    if resource.namespaced:
        where = reference.get("namespace") or namespace
        if not where:
            raise ConfigurationError(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    elif reference.get("namespace"):
        raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    if reference.get("name"):
        found = reader.get(*resource.key, where, reference["name"])
        params = [] if found is None else [found]
    else:
        selects = label_selector.matcher(reference.get("selector"))
        listed = reader.list(*resource.key, where if resource.namespaced else None)
        params = [each for each in listed if selects(each["metadata"].get("labels"))]
    if not params and reference.get("parameterNotFoundAction") == "Deny":
        raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return [from_storage(each, kind) for each in params]
