"""The machines that come with the package, one topology document each."""

from __future__ import annotations

from pathlib import Path

from fake_hw.document import did_you_mean
from fake_hw.errors import HardwareError
from fake_hw.topology import Machine, load

DEFAULT = "dual-numa-4"
_DIRECTORY = Path(__file__).parent


def names() -> list[str]:
    """The names of all machines."""
    return sorted(path.stem for path in _DIRECTORY.glob("*.yaml"))


def get(name: str) -> Machine:
    """The machine of that name; raises HardwareError naming those that exist."""
    if name not in names():
        raise HardwareError(
            f'no machine is named "{name}"; there are {", ".join(names())}{did_you_mean(name, names())}'
        )
    return load(_DIRECTORY / f"{name}.yaml")


def find(name_or_file: str) -> Machine:
    """A machine of the package by its name, or one from a topology document when the text names a file."""
    if "/" not in name_or_file and not name_or_file.endswith((".yaml", ".yml", ".json")):
        return get(name_or_file)
    try:
        return load(Path(name_or_file))
    except OSError as error:
        raise HardwareError(f"{name_or_file}: cannot be read: {error.strerror}") from None
