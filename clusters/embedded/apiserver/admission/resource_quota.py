"""ResourceQuota: no more objects, devices and resources in a namespace than its quotas allow.

Requests are handled one after the other, so the usage that is stored here is never out of date.
Source: apiserver v0.37.2 `pkg/admission/plugin/resourcequota`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from clusters.embedded.apiserver.admission.plugin import Context, Plugin
from clusters.embedded.apiserver.admission.request import CREATE, UPDATE, Request
from clusters.embedded.apiserver.copying import copied
from clusters.embedded.apiserver.patching import manager
from clusters.embedded.apiserver.patching.reset import reset_fields
from clusters.embedded.apiserver.storage import Object, ResourceKey
from clusters.embedded.quota.amounts import (
    Amounts,
    add,
    as_json,
    increase,
    mask,
    nonzero,
    parse,
    shown,
)
from clusters.embedded.quota.evaluator import Evaluator, GroupResource
from clusters.embedded.quota.registry import EXTENDED_RESOURCE, IGNORED, Registry
from dra_api.schema import GVK

_QUOTAS: Final = ResourceKey("", "resourcequotas")
_MANAGER: Final = "kube-apiserver"


class ResourceQuota(Plugin):
    """Checks writes against all quotas of their namespace, and books what they take."""

    name: ClassVar[str] = "ResourceQuota"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        extended = EXTENDED_RESOURCE in context.gates
        self._registry = Registry(context.reader, context.now, extended=extended)

    def validate(self, request: Request) -> None:
        """403 for what exceeds a quota."""
        if not request.namespace or request.operation not in (CREATE, UPDATE):
            return
        quotas = self.context.reader.list(*_QUOTAS, request.namespace)
        resource = GroupResource(request.group, request.resource)
        if not quotas or resource in IGNORED:
            return
        evaluator = self._registry.get(resource)
        if not evaluator.handles(request.operation, request.subresource, request.new, request.old):
            return
        booked = [(quota, used) for quota in quotas for used in self._check(request, evaluator, quota)]
        if request.dry_run or self.context.update is None:
            return
        for quota, used in booked:
            self.context.update(_QUOTAS, self._with_usage(quota, used))

    def _check(self, request: Request, evaluator: Evaluator, quota: Object) -> list[Amounts]:
        """What the quota has in use afterwards; nothing when it is not concerned."""
        obj, name = request.new, quota["metadata"]["name"]
        if not evaluator.matches(quota, obj):
            return []
        status: dict[str, Any] = quota.get("status") or {}
        hard, used = parse(status.get("hard")), parse(status.get("used"))
        restricted = evaluator.matching(hard)
        missing = evaluator.missing(restricted, obj)
        if missing:
            raise request.refuse(f"failed quota: {name}: {missing}")
        if any(each not in used for each in restricted):
            raise request.refuse(
                f"status unknown for quota: {name}, resources: {','.join(sorted(restricted))}"
            )
        usage = evaluator.usage(obj)
        negative = sorted(each for each, amount in usage.items() if amount.sign < 0)
        if negative:
            raise request.refuse(f"quota usage is negative for resource(s): {','.join(negative)}")
        if request.operation == UPDATE and evaluator.matches(quota, request.old):
            usage = increase(usage, evaluator.usage(request.old))
        requested = mask(nonzero(usage), hard)
        if not requested:
            return []
        after = add(used, requested)
        exceeded = [each for each in requested if each in hard and after[each] > hard[each]]
        if exceeded and request.subresource != "status":
            raise request.refuse(
                f"exceeded quota: {name}, requested: {shown(mask(requested, exceeded))}, "
                f"used: {shown(mask(used, exceeded))}, limited: {shown(mask(hard, exceeded))}"
            )
        return [after]

    def _with_usage(self, quota: Object, used: Amounts) -> Object:
        new: Object = copied(quota)
        new["status"]["used"] = as_json(used)
        tracked = manager.update_fields(
            quota,
            new,
            gvk=GVK("", "v1", "ResourceQuota"),
            manager=_MANAGER,
            now=datetime.fromtimestamp(self.context.now(), UTC),
            subresource="status",
            reset=reset_fields("", "resourcequotas", "status", has_status=True),
            convert=None,
        )
        return {**new, "metadata": tracked["metadata"]}
