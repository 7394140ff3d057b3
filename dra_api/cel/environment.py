"""What expressions of device selectors may use, by feature gates and by whether they are new or stored.

New expressions see what the previous Kubernetes version already knows and what enabled gates allow; stored ones
see everything. Sources: dynamic-resource-allocation `cel/compile.go`, apiserver `pkg/cel/environment/base.go`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from . import types
from .checker import PROVIDED, Names
from .declarations import Function, merge
from .library.authorization import AUTHORIZATION
from .library.conversions import CONVERSIONS
from .library.lists import INCLUDES, KUBERNETES_LISTS, LISTS_EXTENSION, SETS
from .library.named_formats import FORMATS
from .library.network import CIDR_TYPE, CIDRS, IP_TYPE, IPS
from .library.operators import OPERATORS
from .library.optionals import OPTIONALS
from .library.quantities import QUANTITIES
from .library.regexes import REGEXES
from .library.semvers import SEMVERS
from .library.strings import STRINGS
from .library.times import TIMES
from .library.urls import URLS
from .types import Type
from .values import QUANTITY

DEVICE: Final = "kubernetes.DRADevice"

TYPE_NAMES: Final[dict[str, Type]] = {
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "google.protobuf.Duration": types.DURATION,
    "int": types.INT,
    "list": types.list_of(types.parameter("A")),
    "map": types.map_of(types.parameter("A"), types.parameter("B")),
    "null_type": types.NULL,
    "string": types.STRING,
    "google.protobuf.Timestamp": types.TIMESTAMP,
    "type": types.TYPE,
    "uint": types.UINT,
    "optional_type": types.optional_of(types.parameter("V")),
    "net.IP": IP_TYPE,
    "net.CIDR": CIDR_TYPE,
}


@dataclass(frozen=True)
class Environment:
    """Names for the checker. `attribute` is the type of attributes."""

    names: Names
    attribute: Type
    lists: bool


@lru_cache(maxsize=2)
def base_functions(*, includes: bool) -> dict[str, Function]:
    """The functions of every environment; `includes` came with Kubernetes 1.37."""
    return merge(
        OPERATORS,
        CONVERSIONS,
        TIMES,
        URLS,
        REGEXES,
        KUBERNETES_LISTS,
        AUTHORIZATION,
        OPTIONALS,
        QUANTITIES,
        STRINGS,
        SETS,
        IPS,
        CIDRS,
        FORMATS,
        SEMVERS,
        LISTS_EXTENSION,
        INCLUDES if includes else {},
    )


@lru_cache(maxsize=8)
def environment(*, stored: bool, consumable_capacity: bool, list_attributes: bool) -> Environment:
    """The environment for new or stored expressions under these gates."""
    lists = stored or list_attributes
    attribute = types.DYN if lists else types.ANY
    fields = {
        "driver": types.STRING,
        "attributes": types.map_of(types.STRING, types.map_of(types.STRING, attribute)),
        "capacity": types.map_of(types.STRING, types.map_of(types.STRING, QUANTITY)),
    }
    if stored or consumable_capacity:
        fields["allowMultipleAllocations"] = types.BOOL
    functions = base_functions(includes=lists)
    structs = {DEVICE: fields, **{name: {} for name in PROVIDED}}
    names = Names({"device": types.struct(DEVICE)}, functions, structs, TYPE_NAMES)
    return Environment(names, attribute, lists)
