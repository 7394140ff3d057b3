"""drakit status at an API server that takes requests and does not answer all of them."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from clusters.client import Client, ClientError
from clusters.tls import Authority
from drakit import status


@pytest.fixture
def without_etcd() -> Iterator[str]:
    """Answers /version and nothing that needs storage, as a kube-apiserver whose etcd has ended; its address."""
    end = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/version":
                end.wait(20)
                return
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        end.set()
        server.shutdown()
        thread.join()


def test_every_request_of_status_has_its_short_limit(
    without_etcd: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(status, "_ANSWER_SECONDS", 0.1)
    cluster = {
        "server": without_etcd,
        "certificate-authority-data": base64.b64encode(Authority().pem).decode(),
    }
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps({"clusters": [{"cluster": cluster}], "users": [{"user": {"token": "t"}}]})
    )
    with pytest.raises(ClientError, match=r"GET /api/v1/nodes: .*read timeout=0\.1"):
        status._contents(kubeconfig, "")


def test_an_authority_that_is_none_is_told(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("none")
    with pytest.raises(ClientError, match=r"no authority can be read from .*ca\.pem: "):
        Client("https://127.0.0.1:1", file, "t")
