"""From JSON and YAML to API objects, with the strictness and the words of a real API server.

Request bodies go through `decode_body`, manifests of users through `load_manifests`. Error texts are those of
Kubernetes 1.37 (tests/dra_api/data/wire_golden.json holds a real decoder's answers).
"""

from __future__ import annotations

from .bodies import decode_body, interpret
from .empties import as_json, as_read, as_stored, is_respelled, same_form, settled
from .json_text import decode_json
from .manifests import ManifestError, ManifestProblem, load_manifests, suggest
from .objects import Decoded, decode_object
from .plans import zero_object
from .problems import DecodeError
from .yaml_text import decode_yaml

__all__ = [
    "DecodeError",
    "Decoded",
    "ManifestError",
    "ManifestProblem",
    "as_json",
    "as_read",
    "as_stored",
    "decode_body",
    "decode_json",
    "decode_object",
    "decode_yaml",
    "interpret",
    "is_respelled",
    "load_manifests",
    "same_form",
    "settled",
    "suggest",
    "zero_object",
]
