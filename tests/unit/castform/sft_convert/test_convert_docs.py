"""docs/sft-convert.md says what the code says: every code, every format, and a report that is real."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmax.sft import CODES
from castform.sft.convert.files import convert_file
from castform.sft.convert.formats import FORMATS
from castform.sft.convert.notes import NOTES, REFUSALS

PAGE = (Path(__file__).parents[4] / "docs" / "sft-convert.md").read_text(encoding="utf-8")
SOURCES = Path(__file__).parents[4] / "core" / "castform" / "sft" / "convert"
CHATS = Path(__file__).parent / "golden" / "chats.jsonl"


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize(("title", "codes"), [("Notes", NOTES), ("Refusals", REFUSALS)])
def test_the_tables_have_every_code_in_order_with_its_meaning(title, codes):
    rows = re.findall(r"^\| `(.*?)` \| (.*) \|$", section(title), re.MULTILINE)
    assert rows == list(codes.items())


def test_every_code_is_given_somewhere_and_every_given_code_is_known():
    text = "".join(path.read_text() for path in SOURCES.glob("*.py") if path.name != "notes.py")
    given = set(re.findall(r'(?:note|Note|RefusedError|Fault)\(\s*"(\w+)"', text))
    given |= {"completion_missing"}  # chosen between two
    assert given - CODES.keys() == {*NOTES, *REFUSALS} - CODES.keys()


def test_the_formats_are_those_of_the_code():
    assert re.findall(r"^\| `(\S+)` \| ", section("Formats"), re.MULTILINE)[1:] == list(FORMATS)


def test_the_report_on_the_page_is_that_of_the_file_on_the_page(tmp_path):
    report = tmp_path / "report.jsonl"
    done = convert_file(CHATS, report=report)
    shown = re.search(r"```json\n(.*)\n```", section("The report"))
    assert shown is not None
    assert json.loads(shown[1]) == json.loads(report.read_text().splitlines()[0])
    assert f"{done.tally.rows} = {done.tally.written} converted + {done.tally.refused} refused" in PAGE
    assert f"openai ({done.reason})" in PAGE
