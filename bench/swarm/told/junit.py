"""A report as JUnit's XML, which every CI shows: a test case for each promise and each threshold.

PURE. Broken is a failure. Not shown is an error, so that no CI counts it as passed; where the run had nothing
that a promise is about, it is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree as ET

from bench.swarm.told.cases import Case, Suite, is_harmless
from storage.history.judge.findings import BROKEN, KEPT, NOT_SHOWN

_NO_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The characters that XML 1.0 cannot hold, not even escaped."""


def junit(suites: Sequence[Suite]) -> str:
    """Make the whole document."""
    root = ET.Element("testsuites", name="groupd")
    for suite in suites:
        root.append(_suite(suite))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(suite: Suite) -> ET.Element:
    cases = suite.cases
    missed = [case for case in cases if case.status == NOT_SHOWN]
    skipped = [case for case in missed if is_harmless(case)]
    attributes = {
        "name": f"groupd {suite.title}",
        "tests": str(len(cases)),
        "failures": str(sum(case.status == BROKEN for case in cases)),
        "errors": str(len(missed) - len(skipped)),
        "skipped": str(len(skipped)),
        "time": f"{suite.duration_s:.3f}",
    }
    if suite.began_at:
        attributes["timestamp"] = suite.began_at
    found = _element("testsuite", **attributes)
    properties = ET.SubElement(found, "properties")
    for name, value in suite.facts:
        properties.append(_element("property", name=name, value=value))
    found.extend(_case(case, suite) for case in cases)
    out = _element("system-out")
    out.text = _clean("\n".join((suite.summary, *suite.words)))
    found.append(out)
    return found


def _case(case: Case, suite: Suite) -> ET.Element:
    name = case.name if case.says == case.name else f"{case.name}: {case.says}"
    classname = f"groupd.{suite.title.replace(' ', '.')}.{case.kind}"
    found = _element("testcase", classname=classname, name=name, time="0")
    if case.status == KEPT:
        return found
    if case.status == BROKEN:
        result = _element("failure", type="broken", message=case.because)
    elif is_harmless(case):
        result = _element("skipped", message=f"not shown: {case.because}")
    else:
        result = _element("error", type="not shown", message=f"not shown: {case.because}")
    more = [f"{case.untold:,} more are in the report."] if case.untold and case.stories else []
    result.text = _clean("\n".join((case.because, *case.stories, *more)))
    found.append(result)
    return found


def _element(tag: str, **attributes: str) -> ET.Element:
    return ET.Element(tag, {name: _clean(value) for name, value in attributes.items()})


def _clean(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
