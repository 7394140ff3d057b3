from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest
from cli_kit import Cli

pytestmark = pytest.mark.process

# A bearer token of a service account is a JWT: three parts in base64, the first two beginning with {".
TOKEN = re.compile(r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}")


def test_the_reports_of_a_failing_driver_hold_evidence_and_no_token(cli: Cli) -> None:
    folder = cli.folder / "new" / "report"
    done = cli.judge(cli.driver("wrong-type"), "--report", folder, "--focus", "DRV-REG-0[1-3]")
    assert done.code == 1
    assert sorted(path.name for path in folder.iterdir()) == ["junit.xml", "report.json"]

    document = json.loads((folder / "report.json").read_text())
    (failure,) = [item for item in document["results"] if item["verdict"] == "fail"]
    assert (failure["id"], failure["expected"], failure["seen"]) == (
        "DRV-REG-02",
        "type DRAPlugin",
        "type 'CSIPlugin'",
    )
    assert document["exitCode"] == 1 and document["summary"]["MUST"]["fail"] == 1
    titles = [item["title"] for item in failure["evidence"]]
    assert "output of the driver (running)" in titles
    # The driver printed its kubeconfig: everything of it is there but the token.
    log = failure["evidence"][-1]["text"]
    assert "token: '[token]'" in log or "token: [token]" in log or '"token": "[token]"' in log, log
    assert "server: https://127.0.0.1" in log or '"server": "https://127.0.0.1' in log

    root = ET.parse(folder / "junit.xml").getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "0")
    (case,) = [case for case in root.iter("testcase") if case.find("failure") is not None]
    assert (case.get("name") or "").startswith("DRV-REG-02 ")
    assert "reproduce: drakit conformance" in (case.findtext("failure") or "")

    for text in (
        done.out,
        done.err,
        (folder / "report.json").read_text(),
        (folder / "junit.xml").read_text(),
    ):
        assert not TOKEN.search(text)
    assert f"reports: {folder}/report.json, {folder}/junit.xml" in done.out
    assert "A declared MUST failed." in done.out


def test_with_json_standard_output_is_one_document(cli: Cli) -> None:
    done = cli.judge(cli.driver("well"), "--json", "--focus", "DRV-REG-01")
    assert done.code == 0
    assert json.loads(done.out)["schemaVersion"] == 1
    assert done.out.startswith("{") and done.out.endswith("}\n")
