"""The list of mutants: name, fault, and what is changed. Requirements name their mutants.

Mutants of the reference driver are in the modules beside this one, mutants of the embedded cluster's components in
the folder `components`: each kind runs in a process that loads only its own.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "driver" / "reference.yaml"
RUN = Path(__file__).with_name("run.py")
DRIVER_MUTANTS, COMPONENT_MUTANTS = "tests.mutants", "tests.mutants.components"

Change = Callable[[], None]
DescriptorChange = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Mutant:
    """One broken driver or cluster component.

    `apply` changes the driver's code in its process, `describe` its descriptor; `change_cluster` changes the code of
    the embedded cluster in the process that judges.
    """

    name: str
    fault: str
    apply: Change | None = None
    describe: DescriptorChange | None = None
    change_cluster: Change | None = None

    @property
    def breaks(self) -> tuple[str, ...]:
        """The requirements that must fail under it."""
        # Broken drivers load this module as well: what they do not use would only cost time.
        from conformance import catalogue

        everything = catalogue.requirements().values()
        return tuple(requirement.id for requirement in everything if self.name in requirement.mutants)

    def descriptor(self, folder: Path) -> Path:
        """The descriptor to judge with this mutant: that of the reference driver, or one of a broken driver.

        The latter is written into the folder.
        """
        return REFERENCE if self.change_cluster is not None else self._write_descriptor(folder)

    def _write_descriptor(self, folder: Path) -> Path:
        import yaml

        document = yaml.safe_load(REFERENCE.read_text())
        command = document["start"]["command"]
        at = command.index("-m")
        # The module's name follows -m; the mutant's runner takes the place of both.
        document["start"]["command"] = [*command[:at], str(RUN), self.name, *command[at + 2 :]]
        if self.describe is not None:
            self.describe(document)
        path = folder / f"{self.name}.yaml"
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path


_MUTANTS: dict[str, Mutant] = {}


def _add(mutant: Mutant) -> None:
    if mutant.name in _MUTANTS:
        raise ValueError(f"two mutants are called {mutant.name}")
    _MUTANTS[mutant.name] = mutant


def mutant(name: str) -> Callable[[Change], Change]:
    """Declare a function that breaks the driver; its docstring says how."""

    def declare(change: Change) -> Change:
        _add(Mutant(name, (change.__doc__ or "").strip(), apply=change))
        return change

    return declare


def descriptor_mutant(name: str) -> Callable[[DescriptorChange], DescriptorChange]:
    """Declare a function that breaks the descriptor; its docstring says how."""

    def declare(change: DescriptorChange) -> DescriptorChange:
        _add(Mutant(name, (change.__doc__ or "").strip(), describe=change))
        return change

    return declare


def component_mutant(name: str) -> Callable[[Change], Change]:
    """Declare a function that breaks a component of the embedded cluster; its docstring says how."""

    def declare(change: Change) -> Change:
        _add(Mutant(name, (change.__doc__ or "").strip(), change_cluster=change))
        return change

    return declare


def mutants(*packages: str) -> Mapping[str, Mutant]:
    """Every mutant by name, or those of some packages."""
    for name in packages or (DRIVER_MUTANTS, COMPONENT_MUTANTS):
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__):
            if module.name.startswith("break_"):
                importlib.import_module(f"{name}.{module.name}")
    return dict(_MUTANTS)
