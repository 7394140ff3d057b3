"""The kinds beside resource.k8s.io (api-machinery sections 7 and 20); their rules live in dra_api."""

from __future__ import annotations

from clusters.embedded.apiserver.copying import copied
from clusters.embedded.apiserver.storage import Object
from clusters.embedded.apiserver.strategies.base import STATUS_METADATA, Strategy, Write, keep_status, restore
from dra_api import defaults_core
from dra_api.errors import FieldError
from dra_api.validation import core


class CoreStrategy(Strategy):
    """What all these kinds share; kinds without a class of their own need no preparation."""

    def default(self, obj: Object, now: float) -> None:
        """See dra_api.defaults_core."""
        defaults_core.apply_core_defaults(obj)

    def validate_create(self, new: Object, write: Write) -> list[FieldError]:
        """See dra_api.validation.core."""
        return core.validate_create(new, write.sent_as)

    def validate_update(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """See dra_api.validation.core."""
        return core.validate_update(new, old, write.sent_as)

    def validate_status(self, new: Object, old: Object, write: Write) -> list[FieldError]:
        """See dra_api.validation.core."""
        return core.validate_status_update(new, old)


class NodeStrategy(CoreStrategy):
    """Nodes keep the status they are created with."""

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """The status stays."""
        keep_status(new, old)


class NamespaceStrategy(CoreStrategy):
    """Namespaces carry the finalizer `kubernetes` in their spec and their own name as a label."""

    def prepare_create(self, new: Object, write: Write) -> None:
        """Active, with the finalizer of the namespace controller."""
        # A generated name was not known when the defaults were set first.
        self.default(new, write.now)
        new["status"] = {"phase": "Active"}
        finalizers = new.setdefault("spec", {}).get("finalizers") or []
        if "kubernetes" not in finalizers:
            new["spec"]["finalizers"] = [*finalizers, "kubernetes"]

    def prepare_update(self, new: Object, old: Object, write: Write) -> None:
        """Finalizers of the spec change through /finalize only."""
        keep_status(new, old)
        new["spec"] = copied(old.get("spec", {}))


def prepare_finalize(new: Object, old: Object) -> None:
    """PUT namespaces/NAME/finalize changes the finalizers of the spec, nothing else."""
    finalizers = (new.get("spec") or {}).get("finalizers")
    keep_status(new, old)
    new["spec"] = {"finalizers": finalizers} if finalizers else {}
    for name in STATUS_METADATA:
        restore(new["metadata"], old["metadata"], name)
