"""What the controllers of a cluster may do: upstream's rules, no more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from apiserver_harness import JSON, PODS, Http, config_map, pod, tokens

from clusters.embedded.apiserver.auth.users import User
from clusters.embedded.apiserver.config import ServerConfig
from clusters.embedded.apiserver.thread import ServerThread

GROUPS = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
CONTROLLERS = (
    "deployment-controller", "replicaset-controller", "statefulset-controller", "daemon-set-controller",
    "job-controller", "resource-claim-controller", "generic-garbage-collector", "namespace-controller",
    "service-account-controller", "root-ca-cert-publisher", "node-controller",
)  # fmt: skip


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, Http]]:
    known = tokens()
    for name in CONTROLLERS:
        known.add(name, User(f"system:serviceaccount:kube-system:{name}", groups=GROUPS))
    server = ServerThread(ServerConfig(tokens=known)).start()
    made = {name: Http(server, name) for name in CONTROLLERS}
    made["admin"] = Http(server)
    yield made
    for client in made.values():
        client.close()
    server.stop()


@pytest.mark.parametrize("name", CONTROLLERS)
def test_each_controller_has_its_account_and_its_role(clients: dict[str, Http], name: str) -> None:
    admin = clients["admin"]
    assert admin.get(f"/api/v1/namespaces/kube-system/serviceaccounts/{name}").code == 200
    role = admin.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/system:controller:{name}").json
    assert role["metadata"]["labels"] == {"kubernetes.io/bootstrapping": "rbac-defaults"}


@pytest.mark.parametrize(
    ("name", "method", "path", "allowed"),
    [
        ("deployment-controller", "GET", "/apis/apps/v1/replicasets", True),
        ("deployment-controller", "PUT", "/apis/apps/v1/namespaces/default/deployments/x/status", True),
        ("deployment-controller", "PATCH", "/apis/apps/v1/namespaces/default/deployments/x/status", False),
        ("replicaset-controller", "POST", PODS, True),
        ("replicaset-controller", "GET", f"{PODS}/x", False),
        ("job-controller", "PATCH", "/apis/batch/v1/namespaces/default/jobs/x/status", False),
        ("job-controller", "PATCH", f"{PODS}/x", True),
        ("resource-claim-controller", "PATCH", f"{PODS}/x/status", True),
        ("resource-claim-controller", "DELETE", f"{PODS}/x", False),
        ("generic-garbage-collector", "DELETE", "/apis/resource.k8s.io/v1/resourceslices/x", True),
        ("namespace-controller", "DELETE", "/api/v1/namespaces/default/configmaps", True),
        ("namespace-controller", "PUT", "/api/v1/namespaces/x/finalize", True),
        ("service-account-controller", "POST", "/api/v1/namespaces/default/serviceaccounts", True),
        ("service-account-controller", "DELETE", "/api/v1/namespaces/default/serviceaccounts/x", False),
        ("root-ca-cert-publisher", "POST", "/api/v1/namespaces/default/configmaps", True),
        ("root-ca-cert-publisher", "GET", "/api/v1/namespaces/default/secrets", False),
        ("node-controller", "PATCH", "/api/v1/nodes/x", True),
        ("node-controller", "GET", "/apis/resource.k8s.io/v1/resourceslices", False),
    ],
)
def test_rights(clients: dict[str, Http], name: str, method: str, path: str, allowed: bool) -> None:
    body = {"POST": pod("x") if path == PODS else config_map("x"), "PATCH": {}, "PUT": {}}.get(method)
    kind = "application/merge-patch+json" if method == "PATCH" else JSON
    answer = clients[name].request(method, f"{path}?dryRun=All" if body is not None else path, body, kind)
    assert (answer.code == 403) is not allowed, answer.body
