"""What kubectl explain is told: facts and descriptions in the OpenAPI documents."""

from __future__ import annotations

from typing import Any

import pytest
from apiserver_harness import Http

from clusters.embedded.apiserver.explain import texts
from dra_api.schema import Message, load

KINDS = ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass", "DeviceTaintRule")


def schemas(http: Http, name: str) -> dict[str, Any]:
    found = http.get(f"/openapi/v3/{name}").json["components"]["schemas"]
    assert isinstance(found, dict)
    return found


def test_required_fields_and_values(http: Http) -> None:
    pod = schemas(http, "api/v1")["io.k8s.api.core.v1.PodSpec"]
    assert pod["required"] == ["containers"]
    assert pod["properties"]["restartPolicy"]["enum"] == ["Always", "Never", "OnFailure"]
    assert pod["properties"]["resourceClaims"]["description"].startswith("Claims that must be allocated")


def test_what_has_no_description_has_none(http: Http) -> None:
    found = schemas(http, "apis/apps/v1")["io.k8s.api.apps.v1.DeploymentStrategy"]
    assert "description" not in found
    assert found["properties"]["type"] == {"type": "string", "enum": ["Recreate", "RollingUpdate"]}


def messages(kind: str) -> dict[str, Message]:
    found: dict[str, Message] = {}

    def visit(message: Message) -> None:
        if message.name not in found and message.name.startswith("resource/"):
            found[message.name] = message
            for field in message.fields.values():
                if field.type == "message":
                    visit(field.message)

    root = load().kind(next(gvk for gvk in load().kinds("resource.k8s.io") if gvk.kind == kind))
    assert root is not None
    visit(root)
    return found


@pytest.mark.parametrize("kind", [*KINDS, "ResourcePoolStatusRequest"])
def test_every_field_of_the_dra_kinds_is_described(kind: str) -> None:
    for message in messages(kind).values():
        told = texts.texts(message)
        assert "" in told, message.name
        assert set(message.fields) <= set(told), message.name


def test_descriptions_are_of_fields_that_exist() -> None:
    for name, told in texts._texts().items():
        if name != "*":
            assert set(told) - {""} <= set(load().message(name).fields), name


def test_older_versions_share_the_words() -> None:
    old = load().message("resource/v1beta1.ResourceClaimSpec")
    assert texts.texts(old)["devices"] == "Requests, conditions between them and configuration."


def test_types_of_the_machinery_have_names(http: Http) -> None:
    # kubectl explain shows the last word of the name of a schema.
    found = schemas(http, "api/v1")
    names = (
        "api.resource.Quantity",
        "util.intstr.IntOrString",
        "runtime.RawExtension",
        "apis.meta.v1.FieldsV1",
    )
    quantity, number, raw, fields = (f"io.k8s.apimachinery.pkg.{name}" for name in names)
    assert found[quantity] == {"oneOf": [{"type": "string"}, {"type": "number"}]}
    assert found[number] == {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}
    assert found[fields] == {"type": "object"}
    assert schemas(http, "apis/apps/v1")[raw] == {"type": "object"}
    limits = found["io.k8s.api.core.v1.ResourceRequirements"]["properties"]["limits"]
    assert limits["additionalProperties"] == {"allOf": [{"$ref": f"#/components/schemas/{quantity}"}]}


def test_what_can_only_be_created_is_explained(http: Http) -> None:
    document = http.get("/openapi/v3/apis/authorization.k8s.io/v1").json
    post = document["paths"]["/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"]["post"]
    kind = {"group": "authorization.k8s.io", "version": "v1", "kind": "SelfSubjectAccessReview"}
    assert (post["x-kubernetes-action"], post["x-kubernetes-group-version-kind"]) == ("post", kind)
    schema = document["components"]["schemas"]["io.k8s.api.authorization.v1.SelfSubjectAccessReview"]
    assert (schema["required"], schema["x-kubernetes-group-version-kind"]) == (["spec"], [kind])


def test_required_fields_of_types_of_other_groups(http: Http) -> None:
    found = schemas(http, "apis/batch/v1")
    claim = next(found[name] for name in found if name.endswith(".WorkloadPodGroupResourceClaim"))
    assert claim["required"] == ["name"]
