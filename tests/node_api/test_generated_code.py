from __future__ import annotations

import importlib

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from node_api import generate, messages, services

NAMES = [path.stem for path in generate.sources()]


@pytest.fixture(scope="module")
def described() -> dict[str, bytes]:
    return {
        file.name.removeprefix("node_api/gen/").removesuffix(".proto"): file.SerializeToString()
        for file in generate.describe().file
    }


@pytest.mark.parametrize("name", NAMES)
def test_committed_code_is_current(name: str, described: dict[str, bytes]) -> None:
    module = importlib.import_module(f"node_api.gen.{name}_pb2")
    committed = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(committed)
    expected = FileDescriptorProto.FromString(described[name])
    # json_name is derived from the name, and only some writers fill it in
    for file in (committed, expected):
        for message in file.message_type:
            for field in [*message.field, *(f for nested in message.nested_type for f in nested.field)]:
                field.ClearField("json_name")
    assert committed == expected, "run python -m node_api.generate"


@pytest.mark.parametrize("name", NAMES)
def test_stubs_cover_every_service_method_and_field(name: str) -> None:
    module = importlib.import_module(f"node_api.gen.{name}_pb2")
    stubs = importlib.import_module(f"node_api.gen.{name}_pb2_grpc")
    hints = generate.PACKAGE.joinpath("gen", f"{name}_pb2.pyi").read_text()
    for service in module.DESCRIPTOR.services_by_name.values():
        servicer = getattr(stubs, f"{service.name}Servicer")
        for method in service.methods:
            assert callable(getattr(servicer, method.name))
    for message in module.DESCRIPTOR.message_types_by_name.values():
        for field in message.fields:
            assert f"    {field.name}: " in hints


@pytest.mark.parametrize(
    ("full_method", "request_name", "response_name"),
    [
        ("/pluginregistration.Registration/GetInfo", "InfoRequest", "PluginInfo"),
        (
            "/pluginregistration.Registration/NotifyRegistrationStatus",
            "RegistrationStatus",
            "RegistrationStatusResponse",
        ),
        (
            "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources",
            "NodePrepareResourcesRequest",
            "NodePrepareResourcesResponse",
        ),
        (
            "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodeUnprepareResources",
            "NodeUnprepareResourcesRequest",
            "NodeUnprepareResourcesResponse",
        ),
        (
            "/v1.DRAResourceHealth/NodeWatchResources",
            "NodeWatchResourcesRequest",
            "NodeWatchResourcesResponse",
        ),
        (
            "/v1alpha1.DRAResourceHealth/NodeWatchResources",
            "NodeWatchResourcesRequest",
            "NodeWatchResourcesResponse",
        ),
    ],
)
def test_full_method_names_are_those_of_kubernetes(
    full_method: str, request_name: str, response_name: str
) -> None:
    types = messages.message_types(full_method)
    assert types is not None
    assert types.request.DESCRIPTOR.name == request_name
    assert types.response.DESCRIPTOR.name == response_name


def test_method_names_split_and_join() -> None:
    full = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
    assert services.full_method(services.DRA_V1, services.NODE_PREPARE_RESOURCES) == full
    assert services.split_method(full) == (
        "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
        "NodePrepareResources",
    )
    assert messages.message_types("/v1.DRAPlugin/NodePrepareResources") is None


def test_field_numbers_on_the_wire() -> None:
    dra = messages.MODULES[services.DRA_V1]
    device = dra.Device(
        request_names=["r"], pool_name="p", device_name="d", cdi_device_ids=["v/c=n"], share_id="s"
    )
    # tag = number << 3 | 2 (length-delimited): 1 -> 0a, 2 -> 12, 3 -> 1a, 4 -> 22, 5 -> 2a; length; bytes
    assert device.SerializeToString() == b"\x0a\x01r\x12\x01p\x1a\x01d\x22\x05v/c=n\x2a\x01s"
    claim = dra.Claim(namespace="n", uid="u", name="c")
    assert claim.SerializeToString() == b"\x0a\x01n\x12\x01u\x1a\x01c"
    info = messages.MODULES[services.REGISTRATION].PluginInfo(
        type="t", name="n", endpoint="e", supported_versions=["v"]
    )
    assert info.SerializeToString() == b"\x0a\x01t\x12\x01n\x1a\x01e\x22\x01v"
    status = messages.MODULES[services.REGISTRATION].RegistrationStatus(plugin_registered=True, error="e")
    assert status.SerializeToString() == b"\x08\x01\x12\x01e"
    health = messages.MODULES[services.HEALTH_V1].DeviceHealth(
        device={"pool_name": "p", "device_name": "d"},
        health=2,
        last_updated_time=3,
        health_check_timeout_seconds=4,
        message="m",
    )
    assert health.SerializeToString() == b"\x0a\x06\x0a\x01p\x12\x01d\x10\x02\x18\x03\x20\x04\x2a\x01m"
    # v1beta1 has no share_id
    assert "share_id" not in messages.MODULES[services.DRA_V1BETA1].Device.DESCRIPTOR.fields_by_name
