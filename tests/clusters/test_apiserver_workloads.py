"""The kinds of apps, batch and policy over HTTP (api-machinery sections 7, 13, 18 and 20)."""

from __future__ import annotations

from typing import Any

import pytest
from apiserver_harness import MERGE, TABLE, Http

APPS = "/apis/apps/v1/namespaces/default"
BATCH = "/apis/batch/v1/namespaces/default"
UID_LABEL, NAME_LABEL = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"


def template(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "probe:1"}], **spec},
    }


def workload(name: str, **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "x"}}
    return {"metadata": {"name": name}, "spec": {"selector": selector, "template": template(), **spec}}


def job(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"template": template(restartPolicy="Never"), **spec}}


def causes(answer: Any) -> dict[str, str]:
    assert answer.code == 422, answer.body
    return {cause["field"]: cause["message"] for cause in answer.json["details"]["causes"]}


def test_a_deployment_gets_its_defaults(http: Http) -> None:
    spec = http.created(f"{APPS}/deployments", workload("d-defaults"))["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    rolling = {"maxUnavailable": "25%", "maxSurge": "25%"}
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    pod = spec["template"]["spec"]
    assert (pod["restartPolicy"], pod["dnsPolicy"]) == ("Always", "ClusterFirst")
    assert pod["terminationGracePeriodSeconds"] == 30
    # Only pods themselves get these.
    assert "enableServiceLinks" not in pod
    assert "tolerations" not in pod


def test_stateful_and_daemon_sets_get_their_defaults(http: Http) -> None:
    spec = http.created(f"{APPS}/statefulsets", workload("s-defaults"))["spec"]
    assert spec["podManagementPolicy"] == "OrderedReady"
    rolling = {"partition": 0, "maxUnavailable": 1}
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    retention = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert spec["persistentVolumeClaimRetentionPolicy"] == retention
    stored = http.created(f"{APPS}/daemonsets", workload("ds-defaults"))
    rolling = {"maxUnavailable": 1, "maxSurge": 0}
    assert stored["spec"]["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert stored["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "1"}


def test_a_changed_template_raises_the_template_generation_of_a_daemon_set(http: Http) -> None:
    http.created(f"{APPS}/daemonsets", workload("ds-generation"))
    path = f"{APPS}/daemonsets/ds-generation"
    key = "deprecated.daemonset.template.generation"
    kept = http.patch(path, {"spec": {"minReadySeconds": 1}, "metadata": {"annotations": {key: "7"}}}).json
    assert (kept["metadata"]["annotations"][key], kept["metadata"]["generation"]) == ("1", 2)
    image = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}}
    raised = http.patch(path, image).json
    assert (raised["metadata"]["annotations"][key], raised["metadata"]["generation"]) == ("2", 3)


def test_annotations_of_a_deployment_count_as_its_spec(http: Http) -> None:
    created = http.created(f"{APPS}/deployments", workload("d-generation"))
    assert created["metadata"]["generation"] == 1
    path = f"{APPS}/deployments/d-generation"
    assert http.patch(path, {"metadata": {"labels": {"a": "b"}}}).json["metadata"]["generation"] == 1
    assert http.patch(path, {"metadata": {"annotations": {"a": "b"}}}).json["metadata"]["generation"] == 2
    assert http.patch(path, {"spec": {"replicas": 3}}).json["metadata"]["generation"] == 3
    status = {"metadata": {"labels": {"c": "d"}}, "status": {"replicas": 3}}
    after = http.patch(f"{path}/status", status).json
    assert (after["metadata"]["generation"], after["metadata"]["labels"]) == (3, {"a": "b"})
    assert after["status"] == {"replicas": 3}
    # The main endpoint leaves the status alone.
    assert http.patch(path, {"status": {"replicas": 9}}).json["status"] == {"replicas": 3}


MISMATCH = "`selector` does not match template `labels`"


@pytest.mark.parametrize(
    ("resource", "spec", "expected"),
    [
        (
            "deployments",
            {"selector": None},
            {
                "spec.selector": "Required value",
                "spec.template.metadata.labels": f'Invalid value: {{"app":"x"}}: {MISMATCH}',
            },
        ),
        (
            "replicasets",
            {"selector": {"matchLabels": {"app": "y"}}},
            {"spec.template.metadata.labels": f'Invalid value: {{"app":"x"}}: {MISMATCH}'},
        ),
        (
            "deployments",
            {"replicas": -1},
            {"spec.replicas": "Invalid value: -1: must be greater than or equal to 0"},
        ),
        (
            "deployments",
            {"strategy": {"type": "Recreate", "rollingUpdate": {}}},
            {
                "spec.strategy.rollingUpdate": "Forbidden: may not be specified when strategy `type` is 'Recreate'"
            },
        ),
        (
            "deployments",
            {"strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "0%"}}},
            {
                "spec.strategy.rollingUpdate.maxUnavailable": "Invalid value: 0: may not be 0 when `maxSurge` is 0"
            },
        ),
        (
            "daemonsets",
            {"template": template(restartPolicy="Never")},
            {"spec.template.spec.restartPolicy": 'Unsupported value: "Never": supported values: "Always"'},
        ),
        (
            "statefulsets",
            {"podManagementPolicy": "Any"},
            {
                "spec.podManagementPolicy": "Invalid value: \"Any\": must be 'OrderedReady' or 'Parallel'",
            },
        ),
        (
            "deployments",
            {"progressDeadlineSeconds": 5, "minReadySeconds": 5},
            {"spec.progressDeadlineSeconds": "Invalid value: 5: must be greater than minReadySeconds"},
        ),
        (
            "replicasets",
            {"selector": {}},
            {"spec.selector": "Invalid value: {}: empty selector is invalid for deployment"},
        ),
    ],
)
def test_what_is_refused(http: Http, resource: str, spec: dict[str, Any], expected: dict[str, str]) -> None:
    assert causes(http.post(f"{APPS}/{resource}", workload("refused", **spec))) == expected


def test_selectors_do_not_change(http: Http) -> None:
    for resource in ("deployments", "replicasets", "daemonsets", "statefulsets"):
        http.created(f"{APPS}/{resource}", workload("fixed"))
        change = {
            "spec": {
                "selector": {"matchLabels": {"b": "c"}},
                "template": {"metadata": {"labels": {"b": "c"}}},
            }
        }
        found = causes(http.patch(f"{APPS}/{resource}/fixed", change))
        assert found["spec.selector"].endswith("field is immutable")


def test_a_job_selects_its_pods_by_its_uid(http: Http) -> None:
    stored = http.created(f"{BATCH}/jobs", job("j"))
    uid = stored["metadata"]["uid"]
    spec = stored["spec"]
    assert spec["selector"] == {"matchLabels": {UID_LABEL: uid}}
    labels = {"app": "x", UID_LABEL: uid, "controller-uid": uid, NAME_LABEL: "j", "job-name": "j"}
    assert spec["template"]["metadata"]["labels"] == labels
    # It had no labels, so it has those of its template.
    assert stored["metadata"]["labels"] == labels
    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 1, 6)
    assert (spec["completionMode"], spec["suspend"], spec["podReplacementPolicy"]) == (
        "NonIndexed",
        False,
        "TerminatingOrFailed",
    )


def test_a_job_with_labels_keeps_them(http: Http) -> None:
    body = job("labelled")
    body["metadata"]["labels"] = {"app": "x"}
    assert http.created(f"{BATCH}/jobs", body)["metadata"]["labels"] == {"app": "x"}


def test_a_job_must_end(http: Http) -> None:
    body = {"metadata": {"name": "forever"}, "spec": {"template": template()}}
    found = causes(http.post(f"{BATCH}/jobs", body))
    assert found == {"spec.template.spec.restartPolicy": 'Required value: valid values: "OnFailure", "Never"'}


def test_the_template_of_a_running_job_stays(http: Http) -> None:
    http.created(f"{BATCH}/jobs", job("frozen"))
    change = {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}, "completions": 2}}
    found = causes(http.patch(f"{BATCH}/jobs/frozen", change))
    assert found.keys() == {"spec.template", "spec.completions"}
    http.created(f"{BATCH}/jobs", job("held", suspend=True))
    assert http.patch(f"{BATCH}/jobs/held", {"spec": {"template": change["spec"]["template"]}}).code == 200


def test_a_finished_job_stays_finished(http: Http) -> None:
    http.created(f"{BATCH}/jobs", job("done"))
    path = f"{BATCH}/jobs/done/status"
    early = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    found = causes(http.patch(path, early))
    assert found == {
        "status.completionTime": "Required value: completionTime is required for Complete jobs",
        "status.conditions": "Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true "
        "condition",
        "status.startTime": "Required value: startTime is required for finished job",
    }
    conditions = [{"type": each, "status": "True"} for each in ("SuccessCriteriaMet", "Complete")]
    times = {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:01:00Z"}
    assert http.patch(path, {"status": {"conditions": conditions, "succeeded": 1, **times}}).code == 200
    found = causes(http.patch(path, {"status": {"conditions": None}}))
    assert "cannot disable" in found["status.conditions"]
    row = http.get(f"{BATCH}/jobs/done", Accept=TABLE).json["rows"][0]
    assert row["cells"][1:4] == ["Complete", "1/1", "60s"]


def test_a_deleted_job_leaves_its_pods_unless_told_otherwise(http: Http) -> None:
    http.created(f"{BATCH}/jobs", job("orphaning"))
    answer = http.delete(f"{BATCH}/jobs/orphaning").json
    assert answer["metadata"]["finalizers"] == ["orphan"]
    http.created(f"{BATCH}/jobs", job("background"))
    answer = http.delete(f"{BATCH}/jobs/background", {"propagationPolicy": "Background"}).json
    assert (answer["kind"], answer["status"]) == ("Status", "Success")


def test_cron_jobs_are_judged(http: Http) -> None:
    spec = {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": template(restartPolicy="Never")}}}
    stored = http.created(f"{BATCH}/cronjobs", {"metadata": {"name": "c"}, "spec": spec})
    assert stored["spec"]["concurrencyPolicy"] == "Allow"
    row = http.get(f"{BATCH}/cronjobs/c", Accept=TABLE).json["rows"][0]
    assert row["cells"][:6] == ["c", "*/5 * * * *", "<none>", "False", 0, "<none>"]
    wrong = {"metadata": {"name": "w"}, "spec": {**spec, "schedule": "60 * * * *"}}
    found = causes(http.post(f"{BATCH}/cronjobs", wrong))
    assert found["spec.schedule"] == 'Invalid value: "60 * * * *": end of range (60) above maximum (59): 60'


def test_scale_reads_and_writes_replicas(http: Http) -> None:
    created = http.created(f"{APPS}/deployments", workload("scaled", replicas=2))
    path = f"{APPS}/deployments/scaled/scale"
    scale = http.get(path).json
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 0, "selector": "app=x"})
    assert scale["metadata"]["uid"] == created["metadata"]["uid"]
    scale["spec"]["replicas"] = 3
    assert http.put(path, scale).json["spec"] == {"replicas": 3}
    assert http.put(path, scale).code == 409
    assert http.patch(path, {"spec": {"replicas": 4}}, MERGE).json["spec"] == {"replicas": 4}
    stored = http.get(f"{APPS}/deployments/scaled").json
    assert (stored["spec"]["replicas"], stored["metadata"]["generation"]) == (4, 3)
    managers = {(entry["manager"], entry.get("subresource")) for entry in stored["metadata"]["managedFields"]}
    assert ("tester", "scale") in managers
    refused = http.patch(path, {"spec": {"replicas": -1}}, MERGE)
    assert causes(refused) == {"spec.replicas": "Invalid value: -1: must be greater than or equal to 0"}
    assert refused.json["message"].startswith('Scale.autoscaling "scaled" is invalid: spec.replicas: ')
    assert http.get(f"{APPS}/daemonsets/scaled/scale").code == 404


def cells(http: Http, path: str) -> tuple[list[str], list[Any]]:
    """Names of the columns (wide ones with *) and the cells of one object without its age."""
    table = http.get(path, Accept=TABLE).json
    names = [c["name"] + ("*" if c["priority"] else "") for c in table["columnDefinitions"]]
    (row,) = table["rows"]
    assert len(row["cells"]) == len(names)
    return names, [cell for name, cell in zip(names, row["cells"], strict=True) if name != "Age"]


def test_tables_short_and_wide(http: Http) -> None:
    for resource in ("deployments", "replicasets", "statefulsets", "daemonsets"):
        http.created(f"{APPS}/{resource}", workload("shown"))
    wide = ["Containers*", "Images*", "Selector*"]
    status = {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
    http.patch(f"{APPS}/deployments/shown/status", {"status": status})
    assert cells(http, f"{APPS}/deployments/shown") == (
        ["Name", "Ready", "Up-to-date", "Available", "Age", *wide],
        ["shown", "1/1", 1, 1, "c", "probe:1", "app=x"],
    )
    assert cells(http, f"{APPS}/replicasets/shown") == (
        ["Name", "Desired", "Current", "Ready", "Age", *wide],
        ["shown", 1, 0, 0, "c", "probe:1", "app=x"],
    )
    assert cells(http, f"{APPS}/statefulsets/shown") == (
        ["Name", "Ready", "Age", "Containers*", "Images*"],
        ["shown", "0/1", "c", "probe:1"],
    )
    assert cells(http, f"{APPS}/daemonsets/shown") == (
        ["Name", "Desired", "Current", "Ready", "Up-to-date", "Available", "Node Selector", "Age", *wide],
        ["shown", 0, 0, 0, 0, 0, "<none>", "c", "probe:1", "app=x"],
    )


def test_revisions_name_their_controller(http: Http) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u", "controller": True}
    body = {"metadata": {"name": "r", "ownerReferences": [owner]}, "data": {"a": 1}, "revision": 3}
    http.created(f"{APPS}/controllerrevisions", body)
    assert cells(http, f"{APPS}/controllerrevisions/r") == (
        ["Name", "Controller", "Revision", "Age"],
        ["r", "statefulset.apps/web", 3],
    )
    assert causes(http.patch(f"{APPS}/controllerrevisions/r", {"data": {"a": 2}})).keys() == {"data"}
    assert causes(http.post(f"{APPS}/controllerrevisions", {"metadata": {"name": "s"}, "revision": 1})) == {
        "data": "Required value: data is mandatory"
    }


def test_field_selectors_of_jobs(http: Http) -> None:
    http.created(f"{BATCH}/jobs", job("selected"))
    found = http.get(f"{BATCH}/jobs?fieldSelector=status.successful=0,metadata.name=selected").json
    assert [item["metadata"]["name"] for item in found["items"]] == ["selected"]
    refused = http.get(f"{BATCH}/jobs?fieldSelector=foo=1")
    assert (refused.code, refused.json["message"]) == (400, 'field label "foo" not supported for Job')


def test_discovery_of_workloads(http: Http) -> None:
    resources = {entry["name"]: entry for entry in http.get("/apis/apps/v1").json["resources"]}
    assert resources["deployments"]["shortNames"] == ["deploy"]
    assert resources["deployments"]["categories"] == ["all"]
    scale = resources["deployments/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    assert "daemonsets/scale" not in resources
    groups = [group["name"] for group in http.get("/apis").json["groups"]]
    assert groups[:2] == ["apps", "events.k8s.io"]
    assert groups.index("batch") < groups.index("policy") < groups.index("rbac.authorization.k8s.io")


def test_budgets_need_a_revision_to_be_replaced(http: Http) -> None:
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    body = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}
    http.created(path, body)
    assert http.put(f"{path}/b", body).code == 422
    assert cells(http, f"{path}/b")[1] == ["b", "1", "N/A", 0]


SERVICES = "/api/v1/namespaces/default/services"


def test_services_get_addresses(http: Http) -> None:
    spec = {"selector": {"app": "x"}, "ports": [{"port": 80}]}
    stored = http.created(SERVICES, {"metadata": {"name": "web"}, "spec": spec})["spec"]
    assert stored["clusterIP"].startswith("10.")
    assert stored["clusterIPs"] == [stored["clusterIP"]]
    assert stored["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    names, values = cells(http, f"{SERVICES}/web")
    assert names == ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector*"]
    assert values == ["web", "ClusterIP", stored["clusterIP"], "<none>", "80/TCP", "app=x"]
    kept = http.patch(f"{SERVICES}/web", {"spec": {"clusterIP": None, "clusterIPs": None}}).json["spec"]
    assert kept["clusterIP"] == stored["clusterIP"]
    assert causes(http.patch(f"{SERVICES}/web", {"spec": {"clusterIP": "10.96.9.9"}})).keys() == {
        "spec.clusterIPs[0]"
    }
    opened = http.patch(f"{SERVICES}/web", {"spec": {"type": "NodePort"}}).json["spec"]
    assert 30000 <= opened["ports"][0]["nodePort"] < 32768


def test_services_are_judged(http: Http) -> None:
    assert causes(http.post(SERVICES, {"metadata": {"name": "1x"}, "spec": {}})).keys() == {
        "metadata.name",
        "spec.ports",
    }
    headless = {"metadata": {"name": "headless"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}}
    assert http.created(SERVICES, headless)["spec"]["clusterIPs"] == ["None"]


def test_every_cluster_has_the_service_of_its_api(http: Http) -> None:
    values = cells(http, f"{SERVICES}/kubernetes")[1]
    assert values == ["kubernetes", "ClusterIP", "10.96.0.1", "<none>", "443/TCP", "<none>"]
