"""What a dataset is once it is made, and what its error says."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

import benchmax.sft
from benchmax.sft import SftDataset, SftDatasetError, SftIssue, SftRows

PAIRS = [("1", "one"), ("2", "two"), ("3", "three")]
ROWS = [{"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]} for q, a in PAIRS]


@pytest.fixture(scope="module")
def dataset() -> SftDataset:
    return SftDataset.from_rows(ROWS)


@pytest.mark.parametrize("name", benchmax.sft.__all__)
def test_what_is_promised_is_there(name):
    assert getattr(benchmax.sft, name) is not None


@pytest.mark.parametrize("arguments", [(), (ROWS,)])
def test_it_is_made_by_its_two_readers_only(arguments):
    with pytest.raises(
        TypeError, match=r"made by SftDataset\.from_jsonl\(path\) or SftDataset\.from_rows\(rows\)"
    ):
        SftDataset(*arguments)


def test_rows_are_a_sequence_of_equal_rows_in_order(dataset):
    assert len(dataset) == len(dataset.rows) == 3
    assert dataset.rows == ROWS == list(dataset) == list(dataset.rows)
    assert dataset.rows == tuple(ROWS)
    assert dataset.rows != ROWS[:2]
    assert dataset.rows != ROWS[::-1]
    assert dataset.rows != "abc"
    assert dataset[1] == dataset.rows[-2] == ROWS[1]
    assert isinstance(dataset[1:], SftRows)
    assert dataset[1:] == dataset.rows[1:] == ROWS[1:]
    with pytest.raises(IndexError):
        dataset.rows[3]


def test_what_a_caller_changes_reaches_neither_rows_nor_bytes(dataset):
    before = dataset.to_jsonl_bytes()
    dataset.rows[0]["messages"].clear()
    for row in dataset:
        row["messages"][0]["content"] = "changed"
    assert dataset.rows == ROWS
    assert dataset.to_jsonl_bytes() == before == b"".join(dataset.iterate_jsonl_bytes())
    with pytest.raises(TypeError):
        dataset.rows[0] = {}
    with pytest.raises(AttributeError):
        dataset.rows = ()


def test_datasets_of_equal_rows_are_equal_and_can_be_kept_in_sets(dataset):
    same = SftDataset.from_rows(dict(reversed(row.items())) for row in ROWS)
    assert {dataset, same} == {same}
    assert dataset != SftDataset.from_rows(ROWS[:2])
    assert dataset != ROWS


def test_numbers_are_not_normalised():
    one, other = (SftDataset.from_rows([ROWS[0] | {"metadata": {"x": x}}]) for x in (1, 1.0))
    assert one.to_jsonl_bytes() != other.to_jsonl_bytes()
    assert b'"x":1.0' in other.to_jsonl_bytes()


def test_a_dataset_goes_through_pickle_and_copy(dataset):
    for twin in (pickle.loads(pickle.dumps(dataset)), copy.deepcopy(dataset)):
        assert twin == dataset
        assert twin.rows == ROWS


def test_rows_of_a_file_know_their_line(tmp_path, dataset):
    path = tmp_path / "x.jsonl"
    path.write_text("\n" + "\n\n".join(json.dumps(row) for row in ROWS))
    made = SftDataset.from_jsonl(path)
    assert [made.line_of(row) for row in range(3)] == [2, 4, 6]
    assert made == dataset
    assert dataset.line_of(1) is None


def test_rows_may_come_from_a_generator_and_are_counted_in_it():
    with pytest.raises(SftDatasetError, match="row 2"):
        SftDataset.from_rows(row for row in [*ROWS[:2], {}])


def test_no_rows_are_an_empty_dataset():
    with pytest.raises(SftDatasetError) as caught:
        SftDataset.from_rows([])
    assert [(i.code, i.location, i.line, i.row) for i in caught.value.issues] == [
        ("empty_dataset", "$", None, None)
    ]


def test_the_error_counts_and_shows_twenty_and_says_how_many_more():
    with pytest.raises(SftDatasetError) as caught:
        SftDataset.from_rows([None] * 23)
    lines = str(caught.value).splitlines()
    assert lines[0] == "23 issues, so no dataset was made"
    assert lines[1] == "  row 0, $: a row is an object, not null"
    assert lines[20].startswith("  row 19, $")
    assert lines[21:] == ["  … and 3 more"]
    assert len(caught.value.issues) == 23


def test_twenty_issues_are_shown_whole_and_one_is_not_called_issues():
    with pytest.raises(SftDatasetError) as caught:
        SftDataset.from_rows([None] * 20)
    assert str(caught.value).splitlines()[-1] == "  row 19, $: a row is an object, not null"
    with pytest.raises(SftDatasetError, match=r"^1 issue, so no dataset was made\n"):
        SftDataset.from_rows([None])


def test_the_error_goes_through_pickle():
    with pytest.raises(SftDatasetError) as caught:
        SftDataset.from_rows([None])
    twin = pickle.loads(pickle.dumps(caught.value))
    assert (twin.issues, twin.source, str(twin)) == (caught.value.issues, None, str(caught.value))


def test_an_issue_describes_its_place_as_far_as_it_is_known():
    issue = SftIssue("no", "$.messages[2].weight", 4, 3, "weight_invalid")
    assert issue.describe() == "line 4, row 3, $.messages[2].weight: no"
    assert SftIssue("no", "$", row=0).describe() == "row 0, $: no"
    assert SftIssue("no", "$").describe() == "$: no"
    assert issue.as_dict() == {"line": 4, "location": "$.messages[2].weight", "message": "no", "row": 3}
    assert SftIssue("no", "$").code == ""


def test_the_text_of_an_error_can_be_printed_whatever_the_data_holds():
    nasty = "\ud800\x1b[31m\u202e\n"
    with pytest.raises(SftDatasetError) as caught:
        SftDataset.from_rows(
            [{nasty: 1, "messages": [{"role": nasty, nasty: nasty}]}, nasty, {"metadata": {nasty: 1}}]
        )
    text = str(caught.value)
    text.encode()
    assert all(line.isprintable() for line in text.splitlines())
    assert len(text.splitlines()) == 1 + len(caught.value.issues)


def test_rows_in_turn_whose_tools_are_equal_but_written_otherwise_keep_their_own(tmp_path):
    lines = []
    for default in ("1", "true", "1.0", "1.0", "-0.0", "0", "false", '"\\u00e9"'):
        parameters = f'{{"default":{default}}}'
        tool = f'{{"function":{{"name":"t","parameters":{parameters}}},"type":"function"}}'
        lines.append(json.dumps(ROWS[0])[:-1] + f', "tools":[{tool}]}}')
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(lines))
    written = [json.dumps(row["tools"][0]["function"]["parameters"]) for row in SftDataset.from_jsonl(path)]
    defaults = ["1", "true", "1.0", "1.0", "-0.0", "0", "false", '"\\u00e9"']
    assert written == [f'{{"default": {default}}}' for default in defaults]
