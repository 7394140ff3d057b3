"""ResourceQuotas: admission and controller together, by the recorded answers of a real Kubernetes 1.37.2."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator
from typing import Any

import pytest
import recorded
from apiserver_harness import Http
from controller_harness import Plane

from clusters.embedded.controllers.resource_quota import ResourceQuotaController

DEVICES = ".deviceclass.resource.k8s.io/devices"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    plane = Plane(tmp_path_factory.mktemp("quota"))
    plane.add(ResourceQuotaController.name, ResourceQuotaController)
    yield plane
    plane.close()


@pytest.fixture(scope="module")
def http(plane: Plane) -> Iterator[Http]:
    client = Http(plane.server, "admin")
    yield client
    client.close()


def make_namespace(http: Http, name: str) -> None:
    http.created("/api/v1/namespaces", {"metadata": {"name": name}})
    # Real namespaces hold a config map, which counts.
    http.created(f"/api/v1/namespaces/{name}/configmaps", {"metadata": {"name": "kube-root-ca.crt"}})
    http.created(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})


def settled(plane: Plane, namespace: str, name: str, status: dict[str, Any]) -> None:
    def look() -> bool:
        return plane.client.get("v1", "resourcequotas", name, namespace).get("status") == status

    plane.until(look, f"quota {namespace}/{name} with status {status}")


@pytest.mark.parametrize("case", recorded.load("resource_quotas.json.gz"), ids=lambda case: case["name"])
def test_quotas_refuse_and_count_as_in_a_real_cluster(case: dict[str, Any], plane: Plane, http: Http) -> None:
    namespace = f"qs-{case['name']}"
    make_namespace(http, namespace)
    for step in case["steps"]:
        if "quota" in step:
            settled(plane, namespace, step["quota"], step["status"])
        else:
            assert recorded.send(http, step) == step["answer"]


def claim(name: str, device_class: str) -> dict[str, Any]:
    exactly = {"deviceClassName": device_class}
    return {
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }


def test_of_many_claims_created_at_once_only_as_many_succeed_as_the_quota_has_left(
    plane: Plane, http: Http
) -> None:
    make_namespace(http, "crowd")
    hard = {f"gold{DEVICES}": "7"}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    http.created("/api/v1/namespaces/crowd/resourcequotas", quota)
    settled(plane, "crowd", "q", {"hard": hard, "used": {f"gold{DEVICES}": "0"}})
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = pool.map(
            lambda number: http.post(CLAIMS.format("crowd"), claim(f"c{number}", "gold")).code, range(20)
        )
    assert sorted(answers) == [201] * 7 + [403] * 13
    settled(plane, "crowd", "q", {"hard": hard, "used": {f"gold{DEVICES}": "7"}})


def test_usage_is_computed_anew_after_five_minutes(plane: Plane, http: Http) -> None:
    make_namespace(http, "drift")
    hard = {"count/secrets": "9"}
    http.created(
        "/api/v1/namespaces/drift/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    )
    settled(plane, "drift", "q", {"hard": hard, "used": {"count/secrets": "0"}})
    wrong = {"status": {"hard": hard, "used": {"count/secrets": "5"}}}
    assert http.patch("/api/v1/namespaces/drift/resourcequotas/q/status", wrong).code == 200

    def mended() -> bool:
        # A round that comes before the change is seen leaves it to the next one.
        plane.clock.advance(301)
        status = http.get("/api/v1/namespaces/drift/resourcequotas/q").json["status"]
        return bool(status == {"hard": hard, "used": {"count/secrets": "0"}})

    plane.until(mended, "the quota is counted anew")


def test_a_quota_shows_its_usage_in_a_table(plane: Plane, http: Http) -> None:
    make_namespace(http, "table")
    hard = {"limits.cpu": "4", "pods": "3", "requests.cpu": "2"}
    http.created(
        "/api/v1/namespaces/table/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    )
    used = dict.fromkeys(hard, "0")
    settled(plane, "table", "q", {"hard": hard, "used": used})
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = http.get("/api/v1/namespaces/table/resourcequotas/q", Accept=accept).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Request", "Limit", "Age"]
    assert table["rows"][0]["cells"][:3] == ["q", "pods: 0/3, requests.cpu: 0/2", "limits.cpu: 0/4"]


def test_what_admission_books_belongs_to_the_api_server(plane: Plane, http: Http) -> None:
    make_namespace(http, "owner")
    hard = {"secrets": "2"}
    http.created(
        "/api/v1/namespaces/owner/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    )
    settled(plane, "owner", "q", {"hard": hard, "used": {"secrets": "0"}})
    http.created("/api/v1/namespaces/owner/secrets", {"metadata": {"name": "s"}})
    quota = plane.client.get("v1", "resourcequotas", "q", "owner")
    owned = {entry["manager"]: entry for entry in quota["metadata"]["managedFields"]}
    assert owned["kube-apiserver"]["subresource"] == "status"
    assert owned["kube-apiserver"]["fieldsV1"] == {"f:status": {"f:used": {"f:secrets": {}}}}
