"""The report as JUnit XML: a suite per area, a case per requirement, for CI systems."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from conformance.model import Result, Verdict, highest
from conformance.report.document import Context, reproduce

# XML 1.0 allows no other control characters than tab, line feed and carriage return, and no lone surrogates.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def build(context: Context, results: Sequence[Result]) -> str:
    """The XML document. Disabled requirements are left out; skips carry their reason."""
    root = ET.Element("testsuites", name="drakit conformance")
    shown = [result for result in results if result.verdict is not Verdict.DISABLED]
    for area in dict.fromkeys(result.requirement.area for result in shown):
        members = [result for result in shown if result.requirement.area == area]
        suite = ET.SubElement(
            root,
            "testsuite",
            {
                "name": area,
                "timestamp": context.started,
                "time": f"{sum(result.seconds for result in members):.3f}",
                **_counts(members),
            },
        )
        properties = ET.SubElement(suite, "properties")
        for name, value in (
            ("driver", context.driver),
            ("tier", context.tier),
            ("kubernetes", context.kubernetes),
            ("catalogue", context.catalogue),
            ("verdict", str(highest(result.verdict for result in members))),
        ):
            ET.SubElement(properties, "property", name=name, value=value)
        for result in members:
            _case(suite, context, result)
    for key, value in _counts(shown).items():
        root.set(key, value)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _counts(results: Sequence[Result]) -> dict[str, str]:
    def count(*verdicts: Verdict) -> str:
        return str(sum(result.verdict in verdicts for result in results))

    return {
        "tests": str(len(results)),
        "failures": count(Verdict.FAIL),
        "errors": count(Verdict.ERROR),
        "skipped": count(Verdict.SKIP, Verdict.KNOWN_GAP),
    }


def _case(suite: ET.Element, context: Context, result: Result) -> None:
    requirement = result.requirement
    case = ET.SubElement(
        suite,
        "testcase",
        classname=f"drakit.{requirement.area}",
        name=f"{requirement.id} {_clean(requirement.rule)}",
        time=f"{result.seconds:.3f}",
    )
    if result.verdict in (Verdict.SKIP, Verdict.KNOWN_GAP):
        ET.SubElement(case, "skipped", message=_clean(result.reason))
    elif result.verdict in (Verdict.FAIL, Verdict.ERROR):
        message = result.reason or f"expected {result.expected}; seen {result.seen}"
        tag = "failure" if result.verdict is Verdict.FAIL else "error"
        element = ET.SubElement(
            case, tag, message=_clean(message), type=f"{requirement.level} {requirement.id}"
        )
        lines = [
            f"expected: {result.expected}",
            f"seen: {result.seen}",
            f"reproduce: {reproduce(context, result)}",
        ]
        for item in result.evidence:
            lines += ["", f"--- {item.kind}: {item.title}", item.text]
        element.text = _clean("\n".join(lines))
