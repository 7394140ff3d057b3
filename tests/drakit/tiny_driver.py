"""A driver of a few lines that goes wrong in one way: `tiny_driver.py MODE NAME PLUGIN_DIR REGISTRY_DIR KUBECONFIG`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SLEEPER = [sys.executable, "-c", "import signal; signal.pause()"]


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def serve(
    name: str, plugin_dir: Path, registry_dir: Path, *, answer: str = "well", service_type: str = "DRAPlugin"
) -> None:
    """Register, and answer Prepare and Unprepare; `answer` is well, never or huge."""
    import threading
    from concurrent import futures

    import grpc

    from node_api import services, sockets
    from node_api.messages import message_types

    endpoint = plugin_dir / "dra.sock"
    info = {
        "type": service_type,
        "name": name,
        "endpoint": str(endpoint),
        "supported_versions": [services.DRA_V1],
    }

    def handler(service: str, method: str) -> grpc.RpcMethodHandler:
        types = message_types(services.full_method(service, method))
        assert types is not None

        def call(request: Any, context: grpc.ServicerContext) -> Any:
            if method == services.GET_INFO:
                return types.response(**info)
            if method == services.NOTIFY_REGISTRATION_STATUS:
                return types.response()
            if answer == "never":
                threading.Event().wait()
            response: Any = types.response()
            for claim in request.claims:
                response.claims[claim.uid].error = "x" * 20_000_000 if answer == "huge" else ""
            return response

        return grpc.unary_unary_rpc_method_handler(
            call, types.request.FromString, types.response.SerializeToString
        )

    def server(service: str, methods: Sequence[str]) -> grpc.Server:
        made = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.max_send_message_length", -1)])
        handlers = {method: handler(service, method) for method in methods}
        full = services.FULL_NAMES.get(service, service)
        made.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(full, handlers),))
        return made

    plugin = server(services.DRA_V1, (services.NODE_PREPARE_RESOURCES, services.NODE_UNPREPARE_RESOURCES))
    registration = server(services.REGISTRATION, (services.GET_INFO, services.NOTIFY_REGISTRATION_STATUS))
    kept.append(sockets.serve(plugin, endpoint))
    kept.append(sockets.serve(registration, registry_dir / f"{name}-reg.sock"))
    say("registered")


kept: list[Any] = []


def main(mode: str, name: str, plugin: str, registry: str, kubeconfig: str) -> None:
    plugin_dir, registry_dir = Path(plugin), Path(registry)
    # Python's own servers end with the process: the sockets stay, which is part of going wrong.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    match mode:
        case "exit":
            os._exit(7)
        case "exit-with-words":
            say("no GPU here, giving up")
            os._exit(3)
        case "idle":
            say("idle")
        case "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "silent-socket":
            import socket

            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(registry_dir / f"{name}-reg.sock"))
            listener.listen()
            kept.append(listener)
        case "garbage":
            while True:
                os.write(1, b"\xff\x00\x1b[31m\xc3\x28 garbage\n" * 1000)
        case "well":
            serve(name, plugin_dir, registry_dir)
        case "removes-plugin-folder":
            serve(name, plugin_dir, registry_dir)
            shutil.rmtree(plugin_dir)
        case "removes-sockets":
            serve(name, plugin_dir, registry_dir)
            (registry_dir / f"{name}-reg.sock").unlink()
            (plugin_dir / "dra.sock").unlink()
        case "removes-directories":
            serve(name, plugin_dir, registry_dir)
            for folder in (plugin_dir, registry_dir):
                shutil.rmtree(folder)
        case "grandchild":
            serve(name, plugin_dir, registry_dir)
            subprocess.Popen(SLEEPER, start_new_session=True)
            subprocess.Popen(SLEEPER)
        case "never-answers":
            serve(name, plugin_dir, registry_dir, answer="never")
        case "huge":
            serve(name, plugin_dir, registry_dir, answer="huge")
        case "stranger":
            serve("other.example.com", plugin_dir, registry_dir)
        case "wrong-type":
            say(Path(kubeconfig).read_text())
            serve(name, plugin_dir, registry_dir, service_type="CSIPlugin")
        case "environment":
            say("GRPC_VERBOSITY" in os.environ, "KUBECONFIG" in os.environ, os.environ["NO_PROXY"])
            os._exit(5)
        case _:
            sys.exit(f"no mode {mode}")
    while True:
        signal.pause()


main(*sys.argv[1:])
