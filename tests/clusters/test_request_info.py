"""Request info by api-machinery section 1."""

from __future__ import annotations

import pytest

from clusters.request_info import FieldRequirement, RequestInfo, parse, parse_field_selector

G = "resource.k8s.io"
R = f"/apis/{G}/v1"
S = "resourceslices"
BY_NAME = {"fieldSelector": "metadata.name=s"}


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("POST", "/api/v1/namespaces/a/pods", {}, ("create", "", "a", "pods", "", "")),
        ("GET", "/api/v1/namespaces/a/pods/p", {}, ("get", "", "a", "pods", "", "p")),
        ("HEAD", "/api/v1/pods", {}, ("list", "", "", "pods", "", "")),
        ("GET", "/api/v1/pods", {"watch": "1"}, ("watch", "", "", "pods", "", "")),
        ("GET", "/api/v1/pods", {"watch": "nonsense"}, ("watch", "", "", "pods", "", "")),
        ("GET", "/api/v1/pods", {"watch": "false"}, ("list", "", "", "pods", "", "")),
        ("GET", "/api/v1/namespaces/a/pods/p", {"watch": "true"}, ("get", "", "a", "pods", "", "p")),
        ("PUT", f"{R}/namespaces/a/claims/c/status", {}, ("update", G, "a", "claims", "status", "c")),
        ("PATCH", f"{R}/resourceslices/s", {}, ("patch", G, "", S, "", "s")),
        ("DELETE", f"{R}/resourceslices", {}, ("deletecollection", G, "", S, "", "")),
        ("GET", "/api/v1/namespaces/a", {}, ("get", "", "a", "namespaces", "", "a")),
        ("PUT", "/api/v1/namespaces/a/finalize", {}, ("update", "", "a", "namespaces", "finalize", "a")),
        ("GET", "/api/v1/namespaces", {}, ("list", "", "", "namespaces", "", "")),
        ("GET", "/api/v1/watch/namespaces/a/pods/p", {}, ("watch", "", "a", "pods", "", "p")),
        ("GET", f"{R}/{S}", BY_NAME, ("list", G, "", S, "", "s")),
        ("GET", "/api/v1/namespaces/a/pods/p/proxy/x/y", {}, ("get", "", "a", "pods", "proxy", "p")),
    ],
)  # fmt: skip
def test_resource_requests(method: str, path: str, query: dict[str, str], expected: tuple[str, ...]) -> None:
    info = parse(method, path, query)
    assert info.is_resource
    assert (info.verb, info.group, info.namespace, info.resource, info.subresource, info.name) == expected


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis/apps/v1", "/healthz", "/metrics/a/b/c", "/version/"]
)
def test_short_and_foreign_paths_are_non_resource_requests(path: str) -> None:
    assert parse("GET", path, {}) == RequestInfo(verb="get", path=path)


def test_selector_is_kept_for_collections_only() -> None:
    query = {"fieldSelector": "spec.nodeName=n,spec.driver!=d"}
    assert parse("GET", f"{R}/resourceslices", query).field_requirements == (
        FieldRequirement("spec.nodeName", "=", "n"),
        FieldRequirement("spec.driver", "!=", "d"),
    )
    assert parse("GET", f"{R}/resourceslices/s", query).field_requirements == ()
    assert parse("GET", "/api/v1/watch/pods", query).field_requirements == ()


def test_selector_that_cannot_be_parsed_selects_no_name() -> None:
    assert parse("GET", "/api/v1/pods", {"fieldSelector": "nonsense"}).name == ""


def test_field_selector_escapes() -> None:
    assert parse_field_selector(r"a==x\,y\=z,,b=") == (
        FieldRequirement("a", "=", "x,y=z"),
        FieldRequirement("b", "=", ""),
    )
    for bad in ("a", r"a=\x", "a=b\\", "a=b=c"):
        with pytest.raises(ValueError, match="selector"):
            parse_field_selector(bad)
