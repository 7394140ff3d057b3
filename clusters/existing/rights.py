"""The least rights that a run on a user's cluster needs, as rules of RBAC."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from clusters.client import Client
from clusters.descriptor import Rule

_DRA: Final = "resource.k8s.io"
_THREADS: Final = 8

RULES: Final = (
    # Where Pods can run, and that tests see which node they are on.
    Rule(("",), ("nodes",), ("get", "list")),
    # Every test has a namespace of its own; one of them gives it a label.
    Rule(("",), ("namespaces",), ("create", "delete", "list", "patch")),
    Rule(("",), ("serviceaccounts",), ("get",), ("default",)),
    Rule(("",), ("pods",), ("create", "delete", "get", "list", "patch")),
    # What controllers write, which tests bring into states that are rare otherwise.
    Rule(("",), ("pods/status",), ("patch",)),
    Rule(("",), ("pods/log",), ("get",)),
    Rule(("",), ("events",), ("list",)),
    Rule(("apps",), ("deployments",), ("create", "delete", "patch")),
    Rule((_DRA,), ("deviceclasses",), ("create", "delete", "list", "patch")),
    Rule((_DRA,), ("resourceslices",), ("create", "delete", "get", "list", "update")),
    Rule((_DRA,), ("resourceclaims",), ("create", "delete", "get", "list", "patch", "update", "watch")),
    Rule((_DRA,), ("resourceclaims/status",), ("update",)),
    # Kubernetes from 1.36 on asks for it where allocations and consumers are written.
    Rule((_DRA,), ("resourceclaims/binding",), ("update",)),
    Rule((_DRA,), ("resourceclaimtemplates",), ("create", "update")),
)
"""What every run needs. Source: the requests of the suites, which tests compare with these."""

METRICS: Final = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
"""That it is known which feature gates are on; without it, requirements behind gates are left out."""

COPY_SECRET: Final = Rule(("",), ("secrets",), ("create",))
"""With --image-pull-secret, whose copy every namespace of a test gets."""


def read_secret(name: str) -> Rule:
    """The rule, for one namespace, to read the secret that is copied."""
    return Rule(("",), ("secrets",), ("get",), (name,))


def lacking(client: Client, rules: Sequence[Rule], namespace: str = "") -> list[str]:
    """The rights of the rules that the client does not have, as `verb resource`. Raises ClientError."""
    wanted = list(_singles(rules))
    with ThreadPoolExecutor(_THREADS) as pool:
        answers = list(pool.map(lambda one: _may(client, one, namespace), wanted))
    return [
        f"{one['verb']} {_resource(one)}" for one, allowed in zip(wanted, answers, strict=True) if not allowed
    ]


def _singles(rules: Sequence[Rule]) -> Iterator[dict[str, str]]:
    for rule in rules:
        for resource in rule.resources:
            kind, _, subresource = resource.partition("/")
            for verb in rule.verbs:
                one = {"group": rule.api_groups[0], "resource": kind, "verb": verb}
                one |= {"subresource": subresource} if subresource else {}
                yield one | ({"name": rule.resource_names[0]} if rule.resource_names else {})


def _resource(one: dict[str, str]) -> str:
    subresource = f"/{one['subresource']}" if "subresource" in one else ""
    group = f".{one['group']}" if one["group"] else ""
    return f"{one['resource']}{group}{subresource}"


def _may(client: Client, attributes: dict[str, str], namespace: str) -> bool:
    where = {"namespace": namespace} if namespace else {}
    body: dict[str, Any] = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**attributes, **where}},
    }
    answer = client.create("authorization.k8s.io/v1", "selfsubjectaccessreviews", body)
    return bool(answer["status"].get("allowed"))
