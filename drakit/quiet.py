"""Importing this module first keeps gRPC's own messages off stderr; drivers under test are not affected.

The C core reads GRPC_VERBOSITY once, when it is loaded. A value that the user has set is respected.
"""

from __future__ import annotations

import os

_VARIABLE = "GRPC_VERBOSITY"

if _VARIABLE in os.environ:
    import grpc
else:
    os.environ[_VARIABLE] = "NONE"
    try:
        import grpc
    finally:
        del os.environ[_VARIABLE]

__all__ = ["grpc"]
