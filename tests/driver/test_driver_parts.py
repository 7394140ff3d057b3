"""The small pure parts: strings, opaque parameters, scoping, device names, failures of the API, logs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from driver_kit import DRIVER, claim, config, ref, result
from driver_kit import gpu_config as gpu_parameters
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_api.semver import is_valid
from driver.profiles import gpu_config
from driver.profiles.strings import cut, string_attribute, version_attribute
from driver.sdk import log
from driver.sdk.allocation import allocated_devices, check_claim, configs_for
from driver.sdk.api import failure_from
from driver.sdk.errors import ClaimError, ConfigError
from driver.sdk.inventory import assign_names
from driver.sdk.readiness import Readiness


@pytest.mark.parametrize(
    ("text", "attribute"),
    [
        ("535.129.3", {"version": "535.129.3"}),
        ("535.104.05", {"version": "535.104.5"}),
        ("v1.2", {"version": "1.2.0"}),
        ("12", {"version": "12.0.0"}),
        ("6.19.14.31400000", {"version": "6.19.14+31400000"}),
        ("1.2.3-rc1", {"version": "1.2.3-rc1"}),
        ("5.15.0-91-generic", {"version": "5.15.0-91-generic"}),
        ("r535_00", {"string": "r535_00"}),
        ("", None),
        (None, None),
        ("  ", None),
    ],
)
def test_versions_are_normalised_or_strings(text: str | None, attribute: dict[str, str] | None) -> None:
    assert version_attribute(text) == attribute


@settings(deadline=None)
@given(st.text())
def test_any_text_becomes_an_attribute_that_the_server_accepts(text: str) -> None:
    for attribute in (version_attribute(text), string_attribute(text)):
        if attribute is not None:
            ((kind, value),) = attribute.items()
            assert 0 < len(value.encode()) <= 64
            assert kind == "string" or is_valid(value)


def test_strings_are_cut_between_characters() -> None:
    # 63 bytes and a character of two: the character does not fit into 64 any more.
    assert cut("x" * 63 + "é") == "x" * 63
    assert cut("x" * 62 + "é") == "x" * 62 + "é"


@pytest.mark.parametrize(
    ("fields", "settings"),
    [
        ({}, {"strategy": "None", "env": {}}),
        ({"sharing": {}}, {"strategy": "None", "env": {}}),
        (
            {"sharing": {"strategy": "TimeSlicing"}},
            {"strategy": "TimeSlicing", "interval": "Default", "env": {}},
        ),
        ({"env": {"A": "b"}}, {"strategy": "None", "env": {"A": "b"}}),
    ],
)
def test_parameters_are_read(fields: dict[str, Any], settings: dict[str, Any]) -> None:
    assert gpu_config.parse(gpu_parameters(**fields)) == settings


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({}, "apiVersion None kind None is unknown; this driver reads GpuConfig of gpu.drakit.dev/v1alpha1"),
        (gpu_parameters() | {"kind": "GPUConfig"}, "kind 'GPUConfig' is unknown"),
        (gpu_parameters(shring={}), "unknown field \"shring\", did you mean 'sharing'"),
        (gpu_parameters(sharing={"xyz": 1}), 'unknown field "sharing.xyz"; known fields: interval, strategy'),
        (gpu_parameters(sharing=[]), "sharing: must be an object"),
        (gpu_parameters(sharing={"strategy": "timeslicing"}), "not one of None, TimeSlicing, MPS"),
        (gpu_parameters(sharing={"strategy": ["None"]}), "is not one of"),
        (gpu_parameters(sharing={"interval": "Short"}), "only allowed with the strategy TimeSlicing"),
        (gpu_parameters(env={"A": 1}), "env.A: must be a string"),
        (gpu_parameters(env={"A=B": "c"}), "'A=B' is not a name of an environment variable"),
    ],
)
def test_wrong_parameters_are_refused_by_name(parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as problem:
        gpu_config.parse(parameters)
    assert text in str(problem.value)


def effective(item: dict[str, Any]) -> dict[str, Any]:
    """Device -> the parameters that win."""
    allocation = check_claim(item, ref(1))
    found = allocated_devices(allocation, DRIVER, configs_for(allocation, DRIVER))
    return {device.name: device.config.parameters["p"] if device.config else None for device in found}


def test_parameters_reach_requests_and_their_sub_requests() -> None:
    older, plain = result("gpu-0", "gpu/older"), result("gpu-1", "other")
    table = {
        ("gpu",): {"gpu-0": 1, "gpu-1": None},
        ("gpu/older",): {"gpu-0": 1, "gpu-1": None},
        ("gpu/newer",): {"gpu-0": None, "gpu-1": None},
        (): {"gpu-0": 1, "gpu-1": 1},
        ("other", "gpu"): {"gpu-0": 1, "gpu-1": 1},
    }
    for requests, expected in table.items():
        assert effective(claim(1, older, plain, configs=[config({"p": 1}, *requests)])) == expected


def test_the_claim_wins_over_the_class_and_the_later_over_the_earlier() -> None:
    configs = [
        config({"p": "claim 1"}, source="FromClaim"),
        config({"p": "claim 2"}, source="FromClaim"),
        config({"p": "class 1"}, source="FromClass"),
        config({"p": "foreign"}, driver="nic.example.com"),
    ]
    assert effective(claim(1, result("gpu-0"), configs=configs)) == {"gpu-0": "claim 2"}
    assert effective(claim(1, result("gpu-0"), configs=[configs[2], configs[3]])) == {"gpu-0": "class 1"}


def test_parameters_must_be_an_object() -> None:
    item = claim(1, result("gpu-0"), configs=[config("text")])
    with pytest.raises(ClaimError, match=r"config\[0\].opaque.parameters: must be an object"):
        effective(item)


def test_use_and_admin_access_of_one_device_in_one_claim_are_one_device() -> None:
    item = claim(1, result("gpu-0", "watch", adminAccess=True), result("gpu-0", "work"))
    allocation = check_claim(item, ref(1))
    (device,) = allocated_devices(allocation, DRIVER, [])
    assert (device.requests, device.admin) == (("watch", "work"), False)


def test_names_are_given_in_order_and_kept() -> None:
    known = {"b": "gpu-0", "gone": "gpu-1"}
    assert assign_names("gpu", ["a", "b", "c"], known) == known | {"a": "gpu-2", "c": "gpu-3"}


@pytest.mark.parametrize(
    ("body", "retry", "seconds", "causes"),
    [
        (json.dumps({"details": {"causes": [{"field": "spec.x", "message": "bad"}]}}), "", 0, ["spec.x: bad"]),
        (json.dumps({"details": {"retryAfterSeconds": 3}}), "", 3, []),
        (json.dumps({"details": None}), "2", 2, []),
        ("<html>", "", 0, []),
        ("[]", "Wed, 21 Oct 2026 07:28:00 GMT", 0, []),
    ],
)  # fmt: skip
def test_any_answer_of_the_api_is_read(body: str, retry: str, seconds: float, causes: list[str]) -> None:
    failure = failure_from(503, body, retry)
    assert failure.transient
    assert failure.retry_after == seconds
    assert [str(cause) for cause in failure.causes] == causes


def test_log_values_stay_one_word() -> None:
    assert log.quote("gpu-0") == "gpu-0"
    assert log.quote("two words") == '"two words"'
    assert log.quote('say "x"\n') == '"say \\"x\\"\\n"'
    assert log.quote("") == '""'


def test_readiness_has_reasons_until_they_are_lifted() -> None:
    readiness = Readiness({"a": "not yet"})
    readiness.probe("c", lambda: "looks bad")
    readiness.set("b", "broken")
    assert readiness.reasons() == {"a": "not yet", "b": "broken", "c": "looks bad"}
    readiness.set("a")
    readiness.set("b")
    readiness.probe("c", lambda: "")
    assert readiness.reasons() == {}
