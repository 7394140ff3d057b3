"""What an admission plugin is."""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import ClassVar

from clusters.embedded.apiserver.admission.request import Request
from clusters.embedded.apiserver.auth.attributes import Authorizer
from clusters.embedded.apiserver.auth.reader import Reader
from clusters.embedded.apiserver.served import Resources
from clusters.embedded.apiserver.storage import Object, ResourceKey


@dataclass(frozen=True)
class Context:
    """What plugins may use: the stored objects, the authorizer, the names of the enabled feature gates.

    `update` stores a changed object, `resources` are those served, `now` the server's clock in seconds since 1970.
    """

    reader: Reader
    authorizer: Authorizer
    gates: Container[str] = field(default_factory=frozenset)
    update: Callable[[ResourceKey, Object], Object] | None = None
    resources: Resources = field(default_factory=Resources)
    now: Callable[[], float] = time.time


class Plugin:
    """Base of all plugins: both steps do nothing unless overridden; either may raise ApiError."""

    name: ClassVar[str] = ""

    def __init__(self, context: Context) -> None:
        self.context = context

    def mutate(self, request: Request) -> None:
        """Change `request.object`, or refuse."""

    def validate(self, request: Request) -> None:
        """Refuse what must not be stored; must not change the object."""
