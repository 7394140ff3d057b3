"""KubeSchedulerConfiguration: what is accepted, and the words of what is not."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from clusters.embedded.scheduler.config import (
    ConfigError,
    ProfileConfig,
    SchedulerConfig,
    check_standalone,
    load_config,
)
from clusters.embedded.scheduler.configuration import durations

AS_WRITTEN = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: DynamicResources
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: DynamicResourcesArgs
      bindingTimeout: 60s
"""
NO_CONNECTION = (
    "invalid configuration: no configuration has been provided, "
    "try setting KUBERNETES_MASTER environment variable"
)
WHERE = "profiles[0].pluginConfig[0].args.bindingTimeout"


def config(**fields: Any) -> str:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return yaml.safe_dump({**head, **fields})


def refusal(text: Any, **gates: bool) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(text, gates)
    return str(caught.value)


def arguments(plugin: str, **args: Any) -> str:
    return config(profiles=[{"schedulerName": "s", "pluginConfig": [{"name": plugin, "args": args}]}])


def test_m02_the_timeout_of_the_seed_is_understood() -> None:
    assert load_config(AS_WRITTEN) == SchedulerConfig(profiles=(ProfileConfig(binding_timeout=60.0),))
    assert load_config(yaml.safe_load(AS_WRITTEN)) == load_config(AS_WRITTEN)
    assert load_config("") == SchedulerConfig(profiles=(ProfileConfig("default-scheduler", 10.0, 600.0),))


def test_m02_a_process_outside_of_a_pod_needs_a_kubeconfig() -> None:
    with pytest.raises(ConfigError) as caught:
        check_standalone(AS_WRITTEN)
    assert str(caught.value) == NO_CONNECTION
    check_standalone(AS_WRITTEN, in_cluster=True)
    check_standalone(AS_WRITTEN + "clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}\n")


@pytest.mark.parametrize("span", ["500ms", "0s", "-5s"])
def test_m02_a_binding_timeout_is_at_least_a_second(span: str) -> None:
    text = AS_WRITTEN.replace("60s", span)
    assert refusal(text) == f'{WHERE}: Invalid value: "{span}": must be at least 1 second'


def test_m02_a_word_is_no_span_of_time() -> None:
    assert refusal(AS_WRITTEN.replace("60s", "abc")) == (
        "decoding .profiles[0].pluginConfig[0]: decoding args for plugin DynamicResources: "
        'time: invalid duration "abc"'
    )


def test_m02_with_the_gate_off_the_timeout_is_forbidden() -> None:
    assert refusal(AS_WRITTEN, DRADeviceBindingConditions=False) == (
        f"{WHERE}: Forbidden: DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
    )
    assert refusal(arguments("DynamicResources", filterTimeout="1s"), DRASchedulerFilterTimeout=False) == (
        "profiles[0].pluginConfig[0].args.filterTimeout: Forbidden: "
        "DRASchedulingFilterTimeout feature gate is disabled"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (config(profile=[]), 'strict decoding error: unknown field "profile"'),
        (
            config(profiles=[{"name": "x"}, {"plugins": {"multiPoint": {"enable": []}}}]),
            (
                'strict decoding error: unknown field "profiles[0].name", '
                'unknown field "profiles[1].plugins.multiPoint.enable"'
            ),
        ),
        (
            arguments("NodeResourcesFit", scoringStrategy={"resources": [{"Name": "cpu", "Weight": 1}]}),
            (
                "strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding error: "
                "decoding args for plugin NodeResourcesFit: strict decoding error: "
                'unknown field "scoringStrategy.resources[0].Name", '
                'unknown field "scoringStrategy.resources[0].Weight"'
            ),
        ),
        (
            arguments("DefaultPreemption", kind="InterPodAffinityArgs"),
            (
                "decoding .profiles[0].pluginConfig[0]: args for plugin DefaultPreemption were not of type "
                "DefaultPreemptionArgs.kubescheduler.config.k8s.io, got "
                "InterPodAffinityArgs.kubescheduler.config.k8s.io"
            ),
        ),
        (
            config(parallelism="many"),
            (
                "json: cannot unmarshal string into Go struct field "
                "KubeSchedulerConfiguration.parallelism of type int32"
            ),
        ),
        (
            config(parallelism=0),
            "parallelism: Invalid value: 0: should be an integer value greater than zero",
        ),
        (
            config(profiles=[{"schedulerName": "a"}, {"schedulerName": "a"}]),
            'profiles[1].schedulerName: Duplicate value: "profiles[0].schedulerName"',
        ),
        (config(profiles=[{"schedulerName": "a"}, {}]), "profiles[1].schedulerName: Required value"),
        (
            config(podInitialBackoffSeconds=20),
            "podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds",
        ),
        (
            config(percentageOfNodesToScore=101),
            "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        ),
        (
            config().replace("scheduler.config.k8s.io/v1", "scheduler.config.k8s.io/v1beta3"),
            (
                'no kind "KubeSchedulerConfiguration" is registered for version '
                '"kubescheduler.config.k8s.io/v1beta3" in scheme '
                '"pkg/scheduler/apis/config/scheme/scheme.go:29"'
            ),
        ),
        (
            config(profiles=[{"plugins": {"filter": {"enabled": [{"name": "Foo"}]}}}]),
            (
                "initializing profiles: creating profile for scheduler name default-scheduler: "
                'FilterPlugin "Foo" does not exist'
            ),
        ),
        (
            config(profiles=[{"plugins": {"reserve": {"disabled": [{"name": "*"}]}}}]),
            (
                "profiles[0].plugins.reserve.disabled: Forbidden: an embedded scheduler can disable plugins at "
                "multiPoint, preEnqueue, filter, postFilter, score only"
            ),
        ),
        ("profiles: []", "Object 'Kind' is missing in '{\"profiles\":[]}'"),
    ],
)
def test_mistakes_are_refused_in_upstreams_words(text: str, words: str) -> None:
    assert refusal(text) == words


def test_profiles_have_their_own_settings() -> None:
    loaded = load_config(
        config(
            podMaxBackoffSeconds=3,
            profiles=[
                {
                    "schedulerName": "a",
                    "plugins": {
                        "multiPoint": {"disabled": [{"name": "DynamicResources"}]},
                        "score": {"enabled": [{"name": "NodeResourcesFit", "weight": 5}]},
                    },
                },
                {
                    "schedulerName": "b",
                    "pluginConfig": [{"name": "DynamicResources", "args": {"filterTimeout": "0s"}}],
                },
            ],
        )
    )
    assert loaded.max_backoff == 3.0
    assert loaded.profiles == (
        ProfileConfig(
            "a", disabled=frozenset({("multiPoint", "DynamicResources")}), weights=(("NodeResourcesFit", 5),)
        ),
        ProfileConfig("b", filter_timeout=0.0),
    )


@pytest.mark.parametrize(
    ("text", "nanoseconds", "canonical"),
    [
        ("60s", 60 * 10**9, "1m0s"),
        ("1.5h", 5400 * 10**9, "1h30m0s"),
        ("-2m1.5s", -121_500_000_000, "-2m1.5s"),
        ("1500us", 1_500_000, "1.5ms"),
        (".5s", 500_000_000, "500ms"),
        ("0", 0, "0s"),
    ],
)
def test_spans_of_time(text: str, nanoseconds: int, canonical: str) -> None:
    assert durations.parse(text) == nanoseconds
    assert durations.text(nanoseconds) == canonical


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 'time: invalid duration ""'),
        ("5", 'time: missing unit in duration "5"'),
        ("5x", 'time: unknown unit "x" in duration "5x"'),
        ("1s-", 'time: unknown unit "s-" in duration "1s-"'),
        ("300000h1h300000000h", 'time: invalid duration "300000h1h300000000h"'),
    ],
)
def test_spans_of_time_that_are_none(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"^time") as caught:
        durations.parse(text)
    assert str(caught.value) == words


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_a_span_survives_its_text(nanoseconds: int) -> None:
    assert durations.parse(durations.text(nanoseconds)) == nanoseconds
