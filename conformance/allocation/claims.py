"""Claims made from templates: names, owners, late templates."""

from __future__ import annotations

import re
from typing import Any

from clusters.client import ClientError
from conformance.catalogue import requirement
from conformance.cluster import manifests
from conformance.cluster.bench import ClusterBench
from conformance.cluster.manifests import RESOURCE_API, Object, request
from conformance.model import Failed, check

_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
_LONGEST = 63
_CREATION = "FailedResourceClaimCreation"


def _claims(bench: ClusterBench) -> list[Object]:
    return [claim for claim in bench.all_of("ResourceClaim") if "deletionTimestamp" not in claim["metadata"]]


def _names(bench: ClusterBench) -> list[str]:
    return [claim["metadata"]["name"] for claim in _claims(bench)]


def _no_template(bench: ClusterBench, pod: str, claim: str, template: str) -> None:
    """Wait until the Pod is told that its template is missing."""
    text = (
        f'PodResourceClaim {claim}: resource claim template "{template}": '
        f'resourceclaimtemplate.resource.k8s.io "{template}" not found'
    )
    bench.wait_event(_CREATION, text, pod)


@requirement("ALC-CLM-01")
def generated_names(bench: ClusterBench) -> None:
    bench.make_template("template", request(bench.name("class")))
    bench.make_pod("web", templates={"gpu": "template"})
    name = bench.generated_claim("web", "gpu")
    check(
        re.fullmatch(r"web-gpu-[a-z0-9]{5}", name) is not None,
        "a claim named web-gpu- and 5 characters",
        name,
    )
    check(_names(bench) == [name], f"one claim, {name}", _names(bench))


@requirement("ALC-CLM-02")
def owner_and_annotation(bench: ClusterBench) -> None:
    bench.make_template("template", request(bench.name("class")))
    pod = bench.make_pod("web", templates={"gpu": "template"})
    metadata = bench.get("ResourceClaim", bench.generated_claim("web", "gpu"))["metadata"]
    expected = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "web",
        "uid": pod["metadata"]["uid"],
        "controller": True,
    }
    owners = metadata.get("ownerReferences") or []
    # Whether the owner's deletion waits for the claim is left open.
    seen = [{key: value for key, value in owner.items() if key != "blockOwnerDeletion"} for owner in owners]
    check(seen == [expected], f"one owner {expected}", owners)
    found = (metadata.get("annotations") or {}).get(_ANNOTATION)
    check(found == "gpu", f"annotation {_ANNOTATION}: gpu", found)


@requirement("ALC-CLM-03")
def template_content(bench: ClusterBench) -> None:
    spec = manifests.claim_spec([request(bench.name("class"), "gpu", count=2)])
    body = manifests.template("template", spec)
    body["spec"]["metadata"] = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    wanted = bench.create(body)["spec"]["spec"]
    bench.make_pod("web", templates={"gpu": "template"})
    claim = bench.get("ResourceClaim", bench.generated_claim("web", "gpu"))
    metadata = claim["metadata"]
    check(metadata.get("labels") == {"team": "a"}, "the template's label team=a", metadata.get("labels"))
    annotations = metadata.get("annotations") or {}
    check(annotations.get("note") == "b", "the template's annotation note: b", annotations)
    check(claim["spec"] == wanted, f"the template's spec {wanted}", claim["spec"])


@requirement("ALC-CLM-04")
def long_names(bench: ClusterBench) -> None:
    bench.publish("dev-0")
    bench.make_template("template", request(bench.make_class()))
    pod, claim = "p" * _LONGEST, "c" * _LONGEST
    bench.make_pod(pod, templates={claim: "template"})
    name = bench.generated_claim(pod, claim)
    fits = len(name) <= _LONGEST and re.fullmatch(r"p+-c+[a-z0-9-]{5,6}", name) is not None
    check(fits, f"a name of at most {_LONGEST} characters with parts of both names", name)
    bench.wait_scheduled(pod)


@requirement("ALC-CLM-05")
def missing_template(bench: ClusterBench) -> None:
    bench.make_pod("web", templates={"gpu": "single-gpu"})
    _no_template(bench, "web", "gpu", "single-gpu")
    check(not _claims(bench), "no claim without a template", _names(bench))


@requirement("ALC-CLM-06")
def late_template(bench: ClusterBench) -> None:
    bench.publish("dev-0")
    device_class = bench.make_class()
    bench.make_pod("web", templates={"gpu": "late"})
    _no_template(bench, "web", "gpu", "late")
    bench.make_template("late", request(device_class))
    bench.generated_claim("web", "gpu")
    bench.wait_scheduled("web")


@requirement("ALC-CLM-07")
def one_late_template(bench: ClusterBench) -> None:
    bench.publish("dev-0", "dev-1")
    device_class = bench.make_class()
    bench.make_template("early", request(device_class))
    bench.make_pod("web", templates={"one": "early", "two": "late"})
    _no_template(bench, "web", "two", "late")
    bench.wait_until(lambda: _claims(bench), "the claim of the template that is there is made")
    bench.stays(lambda: len(_claims(bench)) == 1, "one claim while one template is missing")
    bench.make_template("late", request(device_class))
    bench.wait_scheduled("web")
    names = {bench.generated_claim("web", "one"), bench.generated_claim("web", "two")}
    check(set(_names(bench)) == names, f"exactly the two claims of the Pod, {sorted(names)}", _names(bench))


@requirement("ALC-CLM-08")
def all_names(bench: ClusterBench) -> None:
    bench.make_template("one", request(bench.name("class")))
    bench.make_pod("web", templates={"zz": "one", "aa": "two"})
    _no_template(bench, "web", "aa", "two")
    # Somebody has recorded the first claim already, as a controller that was ended then would have.
    known = bench.wait_until(lambda: _names(bench), "the claim of the first template is made")[0]
    entry = {"name": "zz", "resourceClaimName": known}
    _apply_statuses(bench, "web", [entry])
    bench.make_template("two", request(bench.name("class")))

    def recorded() -> dict[str, Any]:
        status = bench.get("Pod", "web").get("status") or {}
        return {item["name"]: item.get("resourceClaimName") for item in status["resourceClaimStatuses"]}

    bench.wait_until(
        lambda: set(recorded()) == {"aa", "zz"}, "the names of both claims in the status", seen=recorded
    )
    check(recorded()["zz"] == known, f"claim zz is still {known}", recorded())


def _apply_statuses(bench: ClusterBench, pod: str, statuses: list[Object]) -> None:
    """Write the claims of a Pod's status in the name of the controller."""
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod, "namespace": bench.namespace},
        "status": {"resourceClaimStatuses": statuses},
    }
    path = f"/api/v1/namespaces/{bench.namespace}/pods/{pod}/status"
    query = {"fieldManager": "ResourceClaimController", "force": "true"}
    bench.client.request("PATCH", path, body=body, query=query, content_type="application/apply-patch+yaml")


@requirement("ALC-CLM-09")
def orphaned_claim(bench: ClusterBench) -> None:
    bench.publish("dev-0")
    device_class = bench.make_class()
    pod = bench.make_pod("web", templates={"gpu": "template"})
    _no_template(bench, "web", "gpu", "template")
    # What a controller leaves behind that ends between making a claim and recording it.
    body = manifests.claim("orphan", manifests.claim_spec([request(device_class)]))
    body["metadata"] |= {
        "annotations": {_ANNOTATION: "gpu"},
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": "web",
                "uid": pod["metadata"]["uid"],
                "controller": True,
            }
        ],
    }
    bench.create(body)
    bench.make_template("template", request(device_class))
    name = bench.generated_claim("web", "gpu")
    check(name == "orphan", "the claim that exists is used", name)
    bench.wait_scheduled("web")
    check(_names(bench) == ["orphan"], "no further claim", _names(bench))


@requirement("ALC-CLM-10")
def unneeded_claim(bench: ClusterBench) -> None:
    bench.make_pod("web", templates={"gpu": "nowhere"})
    _no_template(bench, "web", "gpu", "nowhere")
    bench.patch("Pod", "web", {"status": {"resourceClaimStatuses": [{"name": "gpu"}]}}, "status")
    bench.wait_scheduled("web")
    check(not _claims(bench), "no claim", _names(bench))


@requirement("ALC-CLM-11")
def templates_have_namespaces(bench: ClusterBench) -> None:
    other = bench.name("other")
    bench.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    body = manifests.template("template", manifests.claim_spec([request(bench.name("class"))]))
    bench.client.create(RESOURCE_API, "resourceclaimtemplates", body, other)
    bench.make_pod("web", templates={"gpu": "template"})
    bench.wait_until(
        lambda: bench.events("web") or _claims(bench), "the controller has looked for the template"
    )
    check(not _claims(bench), "no claim from the template of another namespace", _names(bench))
    _no_template(bench, "web", "gpu", "template")


def _deployment(name: str, replicas: int, template: str, **spec: Any) -> Object:
    pod = manifests.pod(
        name,
        templates={"gpu": template},
        containers=[manifests.container(claims=["gpu"])],
        restart="Always",
    )
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod["spec"]},
            **spec,
        },
    }


def _live_pods(bench: ClusterBench) -> list[Object]:
    return [pod for pod in bench.all_of("Pod") if "deletionTimestamp" not in pod["metadata"]]


@requirement("ALC-CLM-12")
def claims_of_replicas(bench: ClusterBench) -> None:
    bench.publish("dev-0", "dev-1", "dev-2")
    bench.make_template("template", request(bench.make_class()))
    bench.create(_deployment("web", 1, "template"))
    bench.wait_until(lambda: _claims(bench), "the first Pod has a claim")
    bench.patch("Deployment", "web", {"spec": {"replicas": 3}})
    bench.wait_until(
        lambda: [pod for pod in _live_pods(bench) if pod["spec"].get("nodeName")][2:],
        "three Pods of the Deployment are scheduled",
        seen=lambda: [bench.describe_pod(pod["metadata"]["name"]) for pod in _live_pods(bench)],
    )
    pods = [pod["metadata"]["name"] for pod in _live_pods(bench)]
    claims = {bench.generated_claim(pod, "gpu") for pod in pods}
    check(len(claims) == 3, "a claim of its own for each of 3 Pods", sorted(claims))
    devices = sorted(device.split("/")[1] for claim in claims for device in bench.devices_of(claim))
    check(devices == ["dev-0", "dev-1", "dev-2"], "each device once", devices)


@requirement("ALC-CLM-13")
def claims_after_rollouts(bench: ClusterBench) -> None:
    _, device_class = bench.kit_class(*(f"dev-{number}" for number in range(4)))
    bench.make_template("template", request(device_class))
    # All new Pods at once, before the old ones go.
    strategy = {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}
    bench.create(_deployment("web", 2, "template", strategy=strategy))
    _settled(bench, "0")
    for turn in ("1", "2"):
        annotations = {"turn": turn}
        bench.patch("Deployment", "web", {"spec": {"template": {"metadata": {"annotations": annotations}}}})
        _settled(bench, turn)


def _settled(bench: ClusterBench, turn: str) -> None:
    """Wait until there are 2 running Pods of a roll-out, and exactly their claims."""
    seen = ""

    def matched() -> bool:
        nonlocal seen
        pods = bench.all_of("Pod")
        new = [pod for pod in pods if (pod["metadata"].get("annotations") or {}).get("turn", "0") == turn]
        running = [pod for pod in new if (pod.get("status") or {}).get("phase") == "Running"]
        claims = bench.all_of("ResourceClaim")
        owners = sorted(
            owner["uid"] for claim in claims for owner in claim["metadata"].get("ownerReferences") or []
        )
        seen = f"{len(pods)} Pods, {len(running)} of them new and running, {len(claims)} claims"
        return len(pods) == len(running) == 2 and owners == sorted(pod["metadata"]["uid"] for pod in pods)

    bench.wait_until(
        matched, f"after {turn} roll-outs 2 Pods and the 2 claims that they own", seen=lambda: seen
    )


@requirement("ALC-CLM-14")
def immutable_templates(bench: ClusterBench) -> None:
    template = bench.make_template("template", request("one"))
    template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "two"
    try:
        bench.update(template)
    except ClientError as error:
        found = error.code == 422 and "spec: Invalid value" in error.message
        check(found and "field is immutable" in error.message, "422 spec: field is immutable", error)
        return
    raise Failed("422 spec: field is immutable", "the update was accepted")


@requirement("ALC-CLM-15")
def template_alone(bench: ClusterBench) -> None:
    bench.publish("dev-0")
    device_class = bench.make_class()
    bench.make_template("template", request(device_class))
    bench.stays(lambda: not _claims(bench), "no claim without a Pod")
    bench.make_claim("claim", request(device_class))
    bench.make_pod("web", claims={"gpu": "claim"})
    bench.wait_scheduled("web")
