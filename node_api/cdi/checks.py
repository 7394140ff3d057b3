"""Rules of a spec after decoding: version, names, edits. Texts and order are those of the library 1.1.2.

Checks yield every problem in the library's order; the library itself stops at the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from node_api.cdi.model import HOOK_NAMES, VERSIONS, Device, Edits, Hook, IntelRdt, NetDevice, Spec
from node_api.cdi.names import class_problem, device_name_problem, quote, split_kind, vendor_problem


class SpecError(ValueError):
    """A spec is refused. `crash`: the library does not refuse it but ends the whole process that reads it."""

    def __init__(self, text: str, *, crash: bool = False) -> None:
        super().__init__(text)
        self.crash = crash


class Problem(NamedTuple):
    """A broken rule: the field, the library's text, and whether the library crashes instead of saying it."""

    where: str
    text: str
    crash: bool = False


def version_key(version: str) -> tuple[int, ...]:
    """Return the numbers of a known version, for comparison."""
    return tuple(int(part) for part in version.removeprefix("v").split("."))


def _edits(spec: Spec) -> Iterator[Edits]:
    yield spec.edits
    for device in spec.devices:
        yield device.edits


def _null(what: str) -> SpecError:
    return SpecError(f"null entry in {what}: the library crashes (nil dereference)", crash=True)


def _needs_1_1_0(spec: Spec) -> bool:
    return any(
        edits.net_devices
        or (
            edits.intel_rdt is not None
            and (edits.intel_rdt.schemata is not None or edits.intel_rdt.enable_monitoring)
        )
        for edits in _edits(spec)
    )


def _needs_0_7_0(spec: Spec) -> bool:
    return any(edits.intel_rdt is not None or edits.additional_gids for edits in _edits(spec))


def _needs_0_6_0(spec: Spec) -> bool:
    annotated = bool(spec.annotations) or any(device.annotations for device in spec.devices)
    return annotated or "." in split_kind(spec.kind)[1]


def _needs_0_5_0(spec: Spec) -> bool:
    if any(device.name[:1].isascii() and device.name[:1].isdigit() for device in spec.devices):
        return True
    for edits in _edits(spec):
        for node in edits.device_nodes:
            if node is None:
                raise _null("deviceNodes")
            if node.host_path:
                return True
    return False


def _needs_0_4_0(spec: Spec) -> bool:
    for edits in _edits(spec):
        for mount in edits.mounts:
            if mount is None:
                raise _null("mounts")
            if mount.type:
                return True
    return False


# Newest first: the search ends at the first hit, before older rules meet null entries.
_NEEDS: tuple[tuple[str, Callable[[Spec], bool]], ...] = (
    ("1.1.0", _needs_1_1_0),
    ("0.7.0", _needs_0_7_0),
    ("0.6.0", _needs_0_6_0),
    ("0.5.0", _needs_0_5_0),
    ("0.4.0", _needs_0_4_0),
)


def minimum_version(spec: Spec) -> str:
    """Return the lowest cdiVersion that allows what the spec uses.

    Raises:
        SpecError: with `crash` set, if the search meets a null device node or mount.
    """
    return next((version for version, needs in _NEEDS if needs(spec)), "0.3.0")


def version_problems(spec: Spec) -> Iterator[Problem]:
    """Yield what is wrong with cdiVersion: unknown, or too low for the content."""
    given = spec.version.removeprefix("v")
    if given not in VERSIONS:
        yield Problem("cdiVersion", f"invalid version {quote(spec.version)}")
        return
    try:
        least = minimum_version(spec)
    except SpecError as problem:
        yield Problem("", str(problem), crash=True)
        return
    if version_key(given) < version_key(least):
        yield Problem("cdiVersion", f"the spec version must be at least v{least}")


def _env_text(variable: str) -> str | None:
    return None if variable.find("=") > 0 else f"invalid environment variable {quote(variable)}"


def _hook_problems(where: str, hook: Hook | None) -> Iterator[Problem]:
    if hook is None:
        yield Problem(where, "invalid (nil) hook")
        return
    if hook.hook_name not in HOOK_NAMES:
        yield Problem(f"{where}.hookName", f"invalid hook name {quote(hook.hook_name)}")
    if not hook.path:
        yield Problem(f"{where}.path", f"invalid hook {quote(hook.hook_name)} with empty path")
    for index, variable in enumerate(hook.env):
        if text := _env_text(variable):
            yield Problem(f"{where}.env[{index}]", f"invalid hook {quote(hook.hook_name)}: {text}")


def _intel_rdt_problems(where: str, intel_rdt: IntelRdt) -> Iterator[Problem]:
    clos = intel_rdt.clos_id
    if clos == "/":
        return
    if clos in (".", "..") or len(clos.encode()) >= 4096 or "/" in clos or "\n" in clos:
        yield Problem(f"{where}.closID", "invalid ClosID")


def _net_device_problems(where: str, devices: Iterable[NetDevice | None]) -> Iterator[Problem]:
    hosts: set[str] = set()
    names: set[str] = set()
    for index, device in enumerate(devices):
        here = f"{where}[{index}]"
        if device is None:
            yield Problem(here, "invalid (nil) linux net device")
            continue
        for value, seen, key, label in (
            (device.host_interface_name, hosts, "hostInterfaceName", "HostInterfaceName"),
            (device.name, names, "name", "Name"),
        ):
            if not value:
                yield Problem(f"{here}.{key}", f"invalid linux net device, empty {label}")
            elif value in seen:
                yield Problem(f"{here}.{key}", f"invalid linux net device, duplicate {label} {quote(value)}")
            seen.add(value)


def edits_problems(edits: Edits, where: str) -> Iterator[Problem]:
    """Yield what is wrong with the edits at the field path `where`."""
    prefix = f"{where}." if where else ""
    for index, variable in enumerate(edits.env):
        if text := _env_text(variable):
            yield Problem(f"{prefix}env[{index}]", f"invalid container edits: {text}")
    for index, node in enumerate(edits.device_nodes):
        here = f"{prefix}deviceNodes[{index}]"
        if node is None:
            yield Problem(here, "invalid (nil) device node")
            continue
        path = quote(node.path)
        if not node.path:
            yield Problem(f"{here}.path", "invalid (empty) device path")
        if node.type not in ("", "b", "c", "u", "p"):
            yield Problem(f"{here}.type", f"device {path}: invalid type {quote(node.type)}")
        if node.permissions != "none" and set(node.permissions) - set("rwm"):
            text = f"device {path}: invalid permissions {quote(node.permissions)}"
            yield Problem(f"{here}.permissions", text)
        for key, number in (("major", node.major), ("minor", node.minor)):
            if number < 0:
                yield Problem(f"{here}.{key}", f"device {path}: invalid (negative) device number {number}")
    for index, hook in enumerate(edits.hooks):
        yield from _hook_problems(f"{prefix}hooks[{index}]", hook)
    for index, mount in enumerate(edits.mounts):
        here = f"{prefix}mounts[{index}]"
        if mount is None:
            yield Problem(here, "invalid (nil) mount")
            continue
        if not mount.host_path:
            yield Problem(f"{here}.hostPath", "invalid mount, empty host path")
        if not mount.container_path:
            yield Problem(f"{here}.containerPath", "invalid mount, empty container path")
    if edits.intel_rdt is not None:
        yield from _intel_rdt_problems(f"{prefix}intelRdt", edits.intel_rdt)
    yield from _net_device_problems(f"{prefix}netDevices", edits.net_devices)


def _device_problems(device: Device, where: str) -> Iterator[Problem]:
    added = f"failed add device {quote(device.name)}: "
    if text := device_name_problem(device.name):
        yield Problem(f"{where}.name", added + text)
    if device.edits.empty:
        yield Problem(f"{where}.containerEdits", f"{added}invalid device, empty device edits")
    for problem in edits_problems(device.edits, f"{where}.containerEdits"):
        yield problem._replace(text=f"{added}invalid device {quote(device.name)}: {problem.text}")


def spec_problems(spec: Spec) -> Iterator[Problem]:
    """Yield what is wrong with the spec, in the library's order, with its texts."""
    yield from version_problems(spec)
    vendor, class_name = split_kind(spec.kind)
    if text := vendor_problem(vendor) or class_problem(class_name):
        yield Problem("kind", text)
    yield from edits_problems(spec.edits, "containerEdits")
    names: set[str] = set()
    for index, device in enumerate(spec.devices):
        where = f"devices[{index}]"
        yield from _device_problems(device, where)
        if device.name in names:
            yield Problem(f"{where}.name", f"invalid spec, multiple device {quote(device.name)}")
        names.add(device.name)
    if not spec.devices:
        yield Problem("devices", "invalid spec, no devices")


def check_spec(spec: Spec) -> None:
    """Refuse a spec that the library refuses.

    Raises:
        SpecError: with the library's text for the first problem.
    """
    for problem in spec_problems(spec):
        raise SpecError(f"invalid CDI Spec: {problem.text}", crash=problem.crash)
