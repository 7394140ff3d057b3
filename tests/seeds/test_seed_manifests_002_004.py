"""Manifests of seeds 002 and 004 as written, and the answers of the API server; the corrected forms run."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from seeds_api import (
    CATS,
    CATS_NODE,
    DRA,
    GPU_NODE,
    eventually,
    load,
    only,
    refusal,
    request,
    send,
    text_of,
)
from seeds_kit import World

from clusters.client import Client

CATS_TEMPLATE = "large-black-cat-claim-template"


def make_namespace(client: Client, name: str, **labels: str) -> str:
    """A namespace on a server without controllers."""
    meta = {"name": name, "labels": {key.replace("__", "/"): value for key, value in labels.items()}}
    send(client, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    return name


def message(refused: tuple[int, str], code: int) -> str:
    """The message of a refusal with this code."""
    assert refused[0] == code, refused
    return refused[1]


# Seed 002


@pytest.mark.seed("M10", "S002-16")
def test_the_cats_block_as_written_breaks_at_its_second_separator(api: Client, beta: Client) -> None:
    """Differs: the separator starts with an en dash, so template and Pod are never read."""
    text = text_of("cats-all.as-written")
    first, rest = text.split("\n---\n")
    assert refusal(lambda: send(api, yaml.safe_load(first)))[0] == 404
    assert refusal(lambda: send(beta, yaml.safe_load(first)))[0] == 400
    with pytest.raises(yaml.YAMLError):
        list(yaml.safe_load_all(rest))


@pytest.mark.seed("M10", "M13", "S002-13", "S002-14")
def test_the_cats_block_corrected_gives_a_pod_two_cats(world: World) -> None:
    world.driver(CATS, CATS_NODE)
    world.submit("cats-slice", "cats-all")
    assert world.phase("pod-with-cats")["spec"]["nodeName"] == CATS_NODE
    claims = [world.generated("pod-with-cats", name) for name in ("cat-0", "cat-1")]
    for claim, name in zip(claims, ("cat-0", "cat-1"), strict=True):
        assert claim.startswith(f"pod-with-cats-{name}-") and len(claim) == len(f"pod-with-cats-{name}-") + 5
    assert sorted(device for claim in claims for device in world.devices(claim)) == ["cat-a", "cat-c"]


@pytest.mark.seed("M11", "S002-16")
def test_cats_class_as_written_has_its_name_in_the_wrong_place(api: Client, beta: Client) -> None:
    """Differs: the name belongs to metadata; v1beta1 is not served by default."""
    written = only("cats-device-class.as-written")
    assert refusal(lambda: send(api, written))[0] == 404
    assert message(refusal(lambda: send(beta, written)), 400) == (
        'DeviceClass in version "v1beta1" cannot be handled as a DeviceClass: strict decoding error: '
        'unknown field "name"'
    )
    assert message(refusal(lambda: send(beta, written, validate="Ignore")), 422) == (
        'DeviceClass.resource.k8s.io "" is invalid: metadata.name: Required value: name or generateName is required'
    )


@pytest.mark.seed("M11")
def test_cats_class_corrected(world: World) -> None:
    (stored,) = world.submit("cats-device-class")
    assert stored["metadata"]["name"] == "resource.example.com"


@pytest.mark.seed("M12", "S002-15")
def test_cats_template_as_written_is_converted_where_v1beta1_is_served(api: Client, beta: Client) -> None:
    """Differs: v1 wants what a request says below `exactly`; the server converts the older form."""
    written = only("cats-claim-template.as-written")
    assert refusal(lambda: send(api, written, namespace="default"))[0] == 404
    sent = send(beta, written, namespace="default")
    assert sent.warnings == (
        "resource.k8s.io/v1beta1 ResourceClaimTemplate is deprecated in v1.35+, unavailable in v1.38+",
    )
    assert "exactly" not in sent["spec"]["spec"]["devices"]["requests"][0]
    (entry,) = beta.get(DRA, "resourceclaimtemplates", CATS_TEMPLATE, "default")["spec"]["spec"]["devices"][
        "requests"
    ]
    (wanted,) = only("cats-claim-template")["spec"]["spec"]["devices"]["requests"]
    # The seed has blanks at the end of its expression.
    cel = entry["exactly"]["selectors"][0]["cel"]
    cel["expression"] = cel["expression"].rstrip()
    assert entry == {
        "name": "req-0",
        "exactly": {**wanted["exactly"], "allocationMode": "ExactCount", "count": 1},
    }


@pytest.mark.seed("M12")
def test_cats_template_in_the_flat_form_is_refused_as_v1(api: Client) -> None:
    flat = {**only("cats-claim-template.as-written"), "apiVersion": DRA}
    text = message(refusal(lambda: send(api, flat, namespace="default")), 400)
    assert text == (
        'ResourceClaimTemplate in version "v1" cannot be handled as a ResourceClaimTemplate: strict decoding error: '
        'unknown field "spec.spec.devices.requests[0].deviceClassName", '
        'unknown field "spec.spec.devices.requests[0].selectors"'
    )


@pytest.mark.seed("M13")
def test_cats_pod_is_accepted_as_written(api: Client, world: World) -> None:
    (stored,) = world.submit("cats-pod")
    assert stored["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


_ADMIN = (
    "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the "
    "`resource.kubernetes.io/admin-access: true` label on the containing namespace"
)


@pytest.mark.seed("M14", "S002-29", "S002-30")
@pytest.mark.parametrize("value", ["", "yes", "true"])
def test_admin_access_template_needs_a_label_of_its_namespace(beta: Client, value: str) -> None:
    """Differs: the gate is locked, and no policy is needed; the label is built in and must be `true`."""
    labels = {"resource.kubernetes.io__admin-access": value} if value else {}
    namespace = make_namespace(beta, f"admins-{value or 'none'}", **labels)
    old = only("admin-access-claim-template.as-written")
    new = load("admin-access-claim-template")[1]
    del new["metadata"]["namespace"]
    for number, document in enumerate((old, new)):
        document["metadata"]["name"] = f"t{number}"
        if value == "true":
            send(beta, document, namespace=namespace)
        else:
            text = f'ResourceClaimTemplate.resource.k8s.io "t{number}" is invalid: {_ADMIN}'
            assert refusal(lambda: send(beta, document, namespace=namespace)) == (422, text)  # noqa: B023


@pytest.mark.seed("M14", "S002-38")
def test_admin_access_template_corrected_runs_with_default_settings(world: World) -> None:
    stored = world.submit("admin-access-claim-template")[1]
    (entry,) = stored["spec"]["spec"]["devices"]["requests"]
    assert entry["exactly"]["adminAccess"] is True


# Seed 004


@pytest.mark.seed("M19")
def test_nvidia_slice_as_listed_has_a_masked_name(api: Client) -> None:
    """Differs: the listing is masked, and a name must be a DNS subdomain."""
    (item,) = only("nvidia-gpu-slice.as-written")["items"]
    del item["metadata"]["resourceVersion"]  # kubectl create does so
    text = message(refusal(lambda: send(api, item)), 422)
    assert text.startswith(
        'ResourceSlice.resource.k8s.io "192.168.2.8-gpu.nvidia.com-t***" is invalid: metadata.name: Invalid value: '
        '"192.168.2.8-gpu.nvidia.com-t***": a lowercase RFC 1123 subdomain must consist of '
    )


@pytest.mark.seed("M19")
def test_an_object_to_create_has_no_resource_version(api: Client) -> None:
    (item,) = only("nvidia-gpu-slice.as-written")["items"]
    item["metadata"]["name"] = "192.168.2.8-gpu.nvidia.com-t1234"
    assert refusal(lambda: send(api, item)) == (
        500,
        "resourceVersion should not be set on objects to be created",
    )


@pytest.mark.seed("M19", "S004-16")
def test_nvidia_slice_with_the_uid_of_another_node_is_collected(world: World) -> None:
    (item,) = only("nvidia-gpu-slice.as-written")["items"]
    meta = item["metadata"]
    name = meta["name"] = "192.168.2.8-gpu.nvidia.com-t1234"
    meta["ownerReferences"][0]["uid"] = "e62793a4-d8fe-4a11-bd56-60e000000000"
    uid = meta["uid"] = "db0ea1ae-9f6d-43d5-8ee7-7f23f0000000"
    meta["generation"] = 7
    del meta["resourceVersion"]
    stored = world.create(item)
    # The server counts generations and gives UIDs.
    assert stored["metadata"]["generation"] == 1
    assert stored["metadata"]["uid"] != uid
    world.gone("ResourceSlice", name)


@pytest.mark.seed("M19")
def test_nvidia_slice_corrected_stays_and_its_device_is_allocated(world: World) -> None:
    (stored,) = world.submit("nvidia-gpu-slice")
    assert stored["metadata"]["name"].startswith("192.168.2.8-gpu.nvidia.com-")
    listed = only("nvidia-gpu-slice.as-written")["items"][0]["spec"]
    listed["devices"][0]["attributes"]["uuid"]["string"] = "GPU-c8133a35-9d03-a6b2-31dd-260000000000"
    assert stored["spec"] == listed
    world.submit("nvidia-device-classes", "single-gpu-claim-template")
    world.pod("user", templates={"gpu": "single-gpu"})
    result = world.results(world.generated("user", "gpu"))[0]
    assert (result["pool"], result["device"]) == (GPU_NODE, "gpu-0")


@pytest.mark.seed("M20", "M21")
def test_template_and_deployment_of_seed_004_are_accepted_as_written(world: World) -> None:
    template, deployment = world.submit("single-gpu-claim-template", "single-gpu-deployment")
    assert template["spec"]["spec"] == only("single-gpu-claim-template")["spec"]["spec"]
    assert template.warnings == deployment.warnings == ()

    def pod() -> Any:
        return [found for found in world.all_of("Pod") if found["metadata"].get("labels") == _labels(found)]

    (made,) = eventually(pod, "the Deployment has a Pod")
    assert made["spec"]["containers"][0]["resources"] == {"claims": [{"name": "gpu"}]}
    assert made["spec"]["terminationGracePeriodSeconds"] == 3


def _labels(pod: dict[str, Any]) -> dict[str, str]:
    """The labels of the Deployment's Pods; its ReplicaSet adds a hash."""
    return {"app": "gpu-test", "pod-template-hash": pod["metadata"]["labels"]["pod-template-hash"]}


@pytest.mark.seed("M20", "S004-23")
def test_a_template_does_not_change(world: World) -> None:
    world.submit("single-gpu-claim-template")
    code, text = refusal(
        lambda: request(
            world.client,
            "PATCH",
            f"/apis/{DRA}/namespaces/{world.namespace}/resourceclaimtemplates/single-gpu",
            {"spec": {"spec": {"devices": {"requests": None}}}},
            content_type="application/merge-patch+json",
        )
    )
    assert code == 422
    assert text.startswith(
        'ResourceClaimTemplate.resource.k8s.io "single-gpu" is invalid: spec: Invalid value: {'
    )
    assert text.endswith(": field is immutable")
