"""The topology document: what a good one means, and every way in which a bad one is refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fake_hw import machines, reader, tree
from fake_hw.document import TopologyError
from fake_hw.errors import HardwareError
from fake_hw.topology import Bridge, load, to_document

GOOD = """\
schemaVersion: 1
name: good
kernelDriver: {name: fakegpu, version: 1.2.3}
numaNodes:
  - {id: 0, package: 0, cpus: 0-1, memory: 1Gi, distances: [10, 20]}
  - {id: 1, package: 1, cpus: 2-3, memory: 1Gi, distances: [20, 10]}
gpuModels:
  small: {product: Small, vendorId: 0x10de, deviceId: 0x1eb8, memory: 16Gi}
pciRoots:
  - id: pci0000:16
    numaNode: 0
    devices:
      - bridge: 0000:16:01.0
        devices:
          - {gpu: 0000:17:00.0, model: small, minor: 0, uuid: GPU-0}
          - {gpu: 0000:17:00.1, model: small, minor: 1, uuid: GPU-1}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(TopologyError) as caught:
        load(text, source="m.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_values_mean_what_is_written() -> None:
    machine = load(GOOD)
    bridge = machine.pci_roots[0].devices[0]
    assert isinstance(bridge, Bridge)
    assert bridge.bdf == "0000:16:01.0"  # YAML 1.1 would read a number to base 60
    assert [gpu.bdf for gpu in machine.gpus()] == ["0000:17:00.0", "0000:17:00.1"]
    assert machine.gpu_models["small"].memory == 16 * 1024**3
    assert machine.numa_nodes[1].cpus == (2, 3)
    assert machine.numa_nodes[1].distances == (20, 10)


@pytest.mark.parametrize("name", machines.names())
def test_every_machine_of_the_package_loads_and_survives_its_document_form(name: str) -> None:
    machine = machines.get(name)
    assert machine.name == name
    assert load(json.dumps(to_document(machine))) == machine


def test_the_example_of_the_manual_loads() -> None:
    manual = (Path(__file__).parents[2] / "docs/hardware.md").read_text()
    example = re.search(r"```yaml\n(.*?)```", manual, re.DOTALL)
    assert example
    machine = load(example[1])
    assert [gpu.bdf for gpu in machine.gpus()] == ["0000:65:01.0", "0000:c0:01.0"]
    assert machine.numa_nodes[1].cpus == (4, 5, 6, 7)
    assert machine.numa_nodes[2].package is None
    assert machine.pci_roots[1].numa_node is None
    assert load(json.dumps(to_document(machine))) == machine


CASES = [
    ("schemaVersion: 1", "schemaVersion: 2", 'm.yaml:1: schemaVersion: "2" is not a version'),
    ("schemaVersion: 1\n", "", "m.yaml:1: schemaVersion: is required"),
    ("name: good", "name: Good", 'name: "Good" must be 1 to 63 lower case'),
    (
        "pciRoots:",
        "pciRoot:",
        'm.yaml:9: pciRoot: unknown field; allowed: schemaVersion, .*did you mean "pciRoots"',
    ),
    ("name: good", "name: good\nname: good", "m.yaml:3: name: is given twice"),
    ("0000:17:00.1", "0000:17:20.1", r"gpu: \"0000:17:20.1\" must be a PCI address .*such as 0000:65:01.0"),
    ("0000:17:00.1", "0000:17:00.8", "must be a PCI address"),
    ("0000:17:00.1", "17:00.1", "must be a PCI address"),
    ("0000:16:01.0", "0000:16:0A.0", 'did you mean "0000:16:0a.0"'),
    ("0000:17:00.1", "0000:17:00.0", 'PCI address "0000:17:00.0" is already used by pciRoots'),
    (
        "uuid: GPU-1",
        "uuid: GPU-0",
        r'm.yaml:16: pciRoots\[0\].devices\[0\].devices\[1\].uuid: uuid "GPU-0" is already',
    ),
    ("minor: 1,", "minor: 0,", 'minor "0" is already used by'),
    ("minor: 1,", "minor: 255,", 'minor: "255" must be a whole number from 0 to 254'),
    ("minor: 1, ", "", r"devices\[1\].minor: is required"),
    (
        "model: small, minor: 1",
        "model: smal, minor: 1",
        '"smal" is not in gpuModels; allowed: small; did you mean "small"',
    ),
    ("0000:17:00.1", "0000:18:00.1", r'"0000:18:00.1" must be on bus 0000:17, as all functions behind'),
    ("0000:16:01.0", "0000:17:01.0", '"0000:17:01.0" must be on bus 0000:16'),
    ("0000:17:00.0", "0000:15:00.0", '"0000:15:00.0" must be in domain 0000 on a bus above 16'),
    ("0000:17:00.0", "0001:17:00.0", "must be in domain 0000 on a bus above 16"),
    ("numaNode: 0", "numaNode: 2", 'numaNode: "2" is not a NUMA node of this machine; allowed: 0 to 1'),
    (
        "[20, 10]",
        "[20]",
        r"numaNodes\[1\].distances: must have one distance for each of the 2 nodes, but has 1",
    ),
    ("[20, 10]", "[20, 11]", r"distances\[1\]: must be 10: the distance of a node to itself"),
    ("[20, 10]", "[10, 10]", r"distances\[0\]: must be more than 10"),
    ("[20, 10]", "20", "distances: must be a list"),
    ("id: 1,", "id: 2,", r"numaNodes\[1\].id: must be 1: nodes count up from 0"),
    ("cpus: 2-3", "cpus: 1-3", r'CPU "1" is already used by numaNodes\[0\].cpus'),
    ("cpus: 2-3", "cpus: 3-2", "must have ranges that go up"),
    ("cpus: 2-3", "cpus: 2-99999999", "must be a list of CPU numbers"),
    ("package: 1, ", "", r"numaNodes\[1\].package: must be given together with cpus"),
    ("memory: 16Gi", "memory: 16G", 'memory: "16G" must be a positive number of bytes'),
    ("memory: 16Gi", "memory: [16Gi]", "memory: must be a single value"),
    ("vendorId: 0x10de", "vendorId: 10DE", 'vendorId: "10DE" must be 4 lower case hex digits after 0x'),
    ("memory: 16Gi", "memory: 16Gi, class: 0x020000", "class: .* starting with 0x03"),
    (
        "memory: 16Gi",
        "memory: 16Gi, features: {timeslise: true}",
        'unknown field; .*did you mean "timeslice"',
    ),
    ("memory: 16Gi", "memory: 16Gi, features: {mig: yes}", 'features.mig: "yes" must be true or false'),
    ("product: Small", 'product: ""', 'product: "" must not be empty'),
    ("product: Small", r'product: "a\nb"', "must be one line of printable characters"),
    ("kernelDriver: {name: fakegpu, version: 1.2.3}\n", "", "kernelDriver: is required, because .* is a GPU"),
    ("bridge: 0000:16:01.0", "bridge: 0000:16:01.0\n        uuid: x", "uuid: is not a field of a bridge"),
    ("- bridge: 0000:16:01.0\n        devices", "- devices", "must have the field gpu or bridge"),
    ("gpuModels:\n  small:", "gpuModels:\n  small: &a", None),
    ("name: good", "name: *a", "m.yaml:2: not readable as YAML: aliases"),
    ("schemaVersion: 1", "schemaVersion: {", "not readable as YAML"),
]


@pytest.mark.parametrize(("old", "new", "expected"), CASES)
def test_a_mistake_is_named_with_its_place_and_what_is_allowed(
    old: str, new: str, expected: str | None
) -> None:
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    if expected is None:
        load(text)
        return
    found = problems(text)
    assert any(re.search(expected, problem) for problem in found), found


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_lines() -> None:
    found = problems(GOOD.replace("name: good", "name: G").replace("GPU-1", '""'))
    assert [re.match(r"m\.yaml:(\d+):", problem)[1] for problem in found] == ["2", "16"]  # type: ignore[index]


@pytest.mark.parametrize(
    "text", ["", "a", "[]", "- 1", "[" * 2000, "\x00", "a: b: c", "!!python/none x", "---\n---\n"]
)
def test_what_is_no_topology_at_all_is_refused_in_the_same_way(text: str) -> None:
    assert problems(text)


LINES = GOOD.splitlines()


@settings(deadline=None)  # a busy machine is no failure
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(LINES) - 1),
            st.sampled_from(["", "  - x", "{", "]", "a: 1", "  :", "&a", "*a", "\t"]),
        ),
        max_size=4,
    )
)
def test_no_damage_to_a_document_raises_anything_but_a_topology_error(damage: list[tuple[int, str]]) -> None:
    lines = list(LINES)
    for line, text in damage:
        lines[line] = text
    try:
        load("\n".join(lines))
    except TopologyError as error:
        assert error.problems


def test_an_unknown_machine_names_those_that_exist() -> None:
    with pytest.raises(
        HardwareError, match=r'no machine is named "a30"; there are a30-1, dual-numa-4, dual-numa-8'
    ):
        machines.find("a30")


def test_a_machine_file_that_is_absent_is_named(tmp_path: Path) -> None:
    with pytest.raises(HardwareError, match=r"nope\.yaml: cannot be read: No such file"):
        machines.find(str(tmp_path / "nope.yaml"))


def test_a_machine_can_be_asked_for_by_the_number_of_its_gpus(tmp_path: Path) -> None:
    machine = machines.get("gpus-17")
    # 17 GPUs: 9 on the first NUMA node, 8 on the second
    assert [len(root.devices) for root in machine.pci_roots] == [9, 8]
    assert sorted(gpu.minor for gpu in machine.gpus()) == list(range(17))
    assert len({gpu.bdf for gpu in machine.gpus()}) == 17
    assert machine.pci_roots[0].devices[8].bdf == "0000:00:01.0"
    tree.create(machine, tmp_path / "hw", mknod=False)
    assert len(reader.Host(tmp_path / "hw").gpus()) == 17


@pytest.mark.parametrize("name", ["gpus-0", "gpus-241", "gpus-", "gpus-1x"])
def test_a_machine_with_an_impossible_number_of_gpus_is_refused(name: str) -> None:
    with pytest.raises(HardwareError):
        machines.get(name)


@pytest.mark.parametrize("name", ["dual-numa-4", "a30-1", "gpus-3"])
def test_machines_of_two_nodes_have_no_gpu_in_common(name: str) -> None:
    plain = machines.find(name).gpus()
    one, two = (machines.find(name, node).gpus() for node in ("node-1", "node-2"))
    assert machines.find(name, "node-1").gpus() == one
    assert len({gpu.uuid for gpu in (*plain, *one, *two)}) == 3 * len(plain)
    assert all(re.fullmatch("GPU(-[0-9a-f]+){5}", gpu.uuid) for gpu in one)
    serials = [gpu.serial for gpu in (*plain, *one, *two)]
    assert len(set(serials)) == (3 * len(plain) if plain[0].serial else 1)
    assert [replace(gpu, uuid="", serial=None) for gpu in one] == [
        replace(gpu, uuid="", serial=None) for gpu in plain
    ]


def test_a_document_says_what_the_gpus_of_every_node_are(tmp_path: Path) -> None:
    document = tmp_path / "machine.yaml"
    document.write_text(Path(machines.__file__).with_name("a30-1.yaml").read_text())
    assert machines.find(str(document), "node-1") == machines.find("a30-1")
