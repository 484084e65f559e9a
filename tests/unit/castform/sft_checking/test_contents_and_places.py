"""What is counted in a file, how issues are grouped, and which way out is offered."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from benchmax.sft import SftDataset, SftIssue
from castform.sft.checking.contents import count_contents
from castform.sft.checking.places import find_way_out, group_issues
from castform.sft.checking.report import make_report, read_file
from castform.sft.checking.tokens import Distribution

USER = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": "yes"}
GOOD = {"messages": [USER, SAID]}


def tool(name):
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def call(key, name):
    return {"id": key, "type": "function", "function": {"name": name, "arguments": "{}"}}


def result(key):
    return {"role": "tool", "tool_call_id": key, "content": ""}


def test_roles_weights_and_tools_are_counted():
    calling = {"role": "assistant", "tool_calls": [call("a", "find"), call("b", "find")], "weight": 0}
    again = {"role": "assistant", "tool_calls": [call("c", "say")]}
    rows = [
        {
            "messages": [USER, calling, result("a"), result("b"), again, result("c"), SAID],
            "tools": [tool("find"), tool("say"), tool("shout")],
        },
        {"messages": [{"role": "system", "content": "s"}, USER, SAID], "tools": [tool("find")]},
        GOOD,
    ]
    found = count_contents(SftDataset.from_rows(rows)).as_dict()
    assert found["roles"] == {"system": 1, "user": 3, "assistant": 5, "tool": 3}
    assert (found["trained_messages"], found["weight_zero_messages"]) == (4, 1)
    assert found["weight_zero_share"] == 0.2
    assert found["rows_by_assistant_messages"] == {"1": 2, "3": 1}
    assert (found["rows_with_tools"], found["rows_with_calls"]) == (2, 1)
    assert [
        (t["name"], t["defined_rows"], t["called_rows"], t["calls"], t["trained_calls"])
        for t in found["tools"]
    ] == [
        ("find", 2, 1, 2, 0),
        ("say", 1, 1, 1, 1),
        ("shout", 1, 0, 0, 0),
    ]
    assert found["tools_never_called"] == ["shout"]


def test_issues_are_grouped_by_code_the_most_frequent_first():
    issues = [
        SftIssue("x", "$", line, line - 1, code)
        for line, code in ((1, "bom"), (2, "not_utf8"), (3, "invalid_json"), (4, "not_utf8"))
    ]
    groups = group_issues(issues)
    assert [(g.code, g.count, [i.line for i in g.first]) for g in groups] == [
        ("not_utf8", 2, [2, 4]),
        ("bom", 1, [1]),
        ("invalid_json", 1, [3]),
    ]
    assert groups[0].summary == "the line is not UTF-8 text"


@pytest.mark.parametrize(
    ("data", "message", "way_out"),
    [
        (json.dumps([GOOD, GOOD]), "an object, not a list", "convert FILE` reads the file as it is"),
        (json.dumps([GOOD], indent=1), "over many lines", "convert FILE` reads the file as it is"),
        (gzip.compress(b"{}", mtime=0), "gzip-compressed", "unpack it, or let `castform sft convert FILE`"),
        ("\ufeff" + json.dumps(GOOD), "byte order mark", "convert FILE` reads the file as it is"),
        (json.dumps(GOOD).encode("utf-16"), "UTF-16", "convert FILE` reads the file as it is"),
        (b"PAR1xxxx", "Parquet", "mend these places"),
        ('{"messages":[{"role":"user","content":"né'.encode()[:-1], "cut off", "rows before the cut"),
        ('{"messages":"' + "x" * (16 << 20), "was not looked into", "split the row into several"),
        ("[" + "1," * (9 << 20) + "1]", "one array of rows", "convert FILE` reads the file as it is"),
        ("\n \n", "there is no row", "at least one row"),
        (json.dumps({"prompt": "a"}), None, "maps rows of other shapes"),
        (json.dumps({"messages": [USER, {**SAID, "weight": 2}]}), None, "mends what can be mended"),
        (json.dumps({"messages": [{**USER, "role": "human"}, SAID]}), "human", "let `castform sft convert"),
        ("{bad", "not JSON", "mend these places"),
    ],
)
def test_a_file_that_is_something_else_is_named_with_the_way_out(tmp_path, data, message, way_out):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    found = read_file(path)
    assert found.dataset is None
    if message is not None:
        assert len(found.issues) == 1
        assert message in found.issues[0].message
    assert way_out.replace("FILE", str(path)) in (found.way_out or "")
    report = make_report(found, None, measure=None)
    assert (report.would_train, [fault.code for fault in report.faults]) == (False, ["issues"])


def test_several_faults_that_need_a_hand_are_not_sent_to_the_converter():
    issues = [SftIssue("x", "$", 1, 0, code) for code in ("invalid_json", "tools_required")]
    assert find_way_out(issues, Path("a.jsonl")).startswith("mend these places")


def test_quantiles_are_values_that_occur():
    assert Distribution.of([]) is None
    assert Distribution.of([7]) == Distribution(min=7, median=7, p95=7, max=7)
    assert Distribution.of([4, 1, 3, 2]) == Distribution(min=1, median=2, p95=4, max=4)
    assert Distribution.of(range(100, 0, -1)) == Distribution(min=1, median=50, p95=95, max=100)


def test_what_any_model_would_be_refused_for_is_found_without_one(tmp_path):
    rows = [{"messages": [{"role": "user", "content": f"w{n}"}, SAID]} for n in range(2049)]
    train, held_out = tmp_path / "t.jsonl", tmp_path / "e.jsonl"
    train.write_text(json.dumps(rows[4]) + "\n" + json.dumps({**GOOD, "metadata": {}}) + "\n")
    held_out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = make_report(read_file(train), read_file(held_out), measure=None)
    assert [fault.code for fault in report.faults] == ["eval_too_large", "held_out_is_trained"]
    assert "2,049 rows" in report.faults[0].message
    assert "row 4 is row 0 of the training data" in report.faults[1].message
    held_out.write_text("".join(json.dumps(row) + "\n" for row in rows[5:2053]))
    assert make_report(read_file(train), read_file(held_out), measure=None).faults == ()
