"""The four patch types and field management (api-machinery section 8).

`json_patch`, `merge_patch` and `strategic_merge` give the patched object; `update_fields` then computes the
managedFields of the write. `apply` does both for a server-side apply. `bodies` reads the request bodies.
"""

from __future__ import annotations

from clusters.embedded.apiserver.patching.errors import PatchError
from clusters.embedded.apiserver.patching.json_patch import json_patch
from clusters.embedded.apiserver.patching.manager import apply, restore_times, update_fields
from clusters.embedded.apiserver.patching.merge_patch import merge_patch
from clusters.embedded.apiserver.patching.reset import reset_fields
from clusters.embedded.apiserver.patching.shapes import shape_of
from clusters.embedded.apiserver.patching.strategic import strategic_merge

__all__ = [
    "PatchError",
    "apply",
    "json_patch",
    "merge_patch",
    "reset_fields",
    "restore_times",
    "shape_of",
    "strategic_merge",
    "update_fields",
]
