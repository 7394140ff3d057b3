"""Which resources and versions one server serves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from clusters.embedded.apiserver.resource_table import TABLE
from clusters.embedded.apiserver.resources import Served

_PRIORITY: Final = ("v1", "v1beta2", "v1beta1", "v1alpha3")
_DEFAULT_OFF: Final = frozenset(
    {"resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1", "resource.k8s.io/v1alpha3"}
)


def _enabled_versions(runtime_config: Mapping[str, bool]) -> set[str]:
    """Group versions that are served, as `resource.k8s.io/v1`; unknown keys of the runtime config are an error."""
    known = {
        f"{resource.group}/{version}" if resource.group else version
        for resource in TABLE
        for version in resource.versions
    }
    enabled = known - _DEFAULT_OFF
    general = {
        "api/all": known,
        "api/ga": {version for version in known if version.endswith("v1")},
        "api/beta": {version for version in known if "beta" in version},
        "api/alpha": {version for version in known if "alpha" in version},
    }
    # The specific entry wins over the general one, whatever their order.
    for key, on in sorted(runtime_config.items(), key=lambda item: item[0] not in general):
        name = key.removeprefix("api/") if key == "api/v1" else key
        chosen = general.get(key) or ({name} if name in known else None)
        if chosen is None:
            allowed = ", ".join(sorted(known | set(general)))
            raise ValueError(f'--runtime-config: unknown API version "{key}"; allowed: {allowed}')
        enabled = enabled | chosen if on else enabled - chosen
    return enabled


class Resources:
    """The resources that one server serves, by path and by kind."""

    def __init__(self, runtime_config: Mapping[str, bool] | None = None) -> None:
        """`runtime_config` as the server's flag of that name: `resource.k8s.io/v1beta1` or `api/all` -> on or off."""
        enabled = _enabled_versions(runtime_config or {})
        self._served: dict[tuple[str, str, str], Served] = {}
        self._kinds: dict[tuple[str, str, str], Served] = {}
        self._groups: dict[str, list[str]] = {}
        for resource in TABLE:
            for version in resource.versions:
                served = Served(resource, version)
                if served.api_version not in enabled:
                    continue
                self._served[resource.group, version, resource.plural] = served
                self._kinds[resource.group, version, resource.kind] = served
                versions = self._groups.setdefault(resource.group, [])
                if version not in versions:
                    versions.append(version)
                    versions.sort(key=_PRIORITY.index)

    def find(self, group: str, version: str, plural: str) -> Served | None:
        """The resource of a path."""
        return self._served.get((group, version, plural))

    def find_kind(self, group: str, version: str, kind: str) -> Served | None:
        """The resource of a kind."""
        return self._kinds.get((group, version, kind))

    def all(self) -> Iterable[Served]:
        """All resources in all versions served."""
        return self._served.values()

    def groups(self) -> dict[str, list[str]]:
        """Versions per group, groups in order of priority, the preferred version first."""
        return self._groups

    def of(self, group: str, version: str) -> Iterable[Served]:
        """The resources of a group version, by name."""
        found = [served for key, served in self._served.items() if key[:2] == (group, version)]
        return sorted(found, key=lambda served: served.resource.plural)
