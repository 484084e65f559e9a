"""The data of examples/sft/pii_masking: labels are right, nobody is in it, no split knows another's values."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import random
import re
import shutil
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest

from benchmax.sft import SftDataset, SftDatasetError, warnings_of
from castform.plugins import load_environment
from castform.sft.config import load_sft_config
from castform.testing import FakeModel

FOLDER = Path(__file__).parents[3] / "examples" / "sft" / "pii_masking"
MODULES = ("sentences", "fictional", "corpus", "mapping", "make_data", "launch")
SPLITS = ("train", "validation", "held_out")
DIGESTS = {"train": "9133cff63902c043", "validation": "564d9ad4047cdb95", "held_out": "01f1717a0a1fffd5"}
PAIRS = [("train", "validation"), ("train", "held_out"), ("validation", "held_out")]


@pytest.fixture(scope="module")
def example():
    """The example's modules, by name; they are imported as in the script, from their own folder."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: importlib.import_module(name) for name in MODULES if name != "launch"}
    finally:
        sys.path.remove(str(FOLDER))
        for name in MODULES:
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def files(example: dict[str, ModuleType], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("data")
    assert example["make_data"].main([str(folder)]) == 0
    return {split: folder / f"{split}.jsonl" for split in SPLITS}


@pytest.fixture(scope="module")
def records(example: dict[str, ModuleType]):
    return {split: list(islice(example["corpus"].generate_records(split, seed=3), 800)) for split in SPLITS}


def values_of(records, label):
    return {
        record.text[span.start : span.end]
        for record in records
        for span in record.spans
        if span.label == label
    }


def texts_of(path):
    return [row["messages"][1]["content"] for row in SftDataset.from_jsonl(path)]


def test_every_file_is_a_sound_dataset_of_the_size_that_the_script_names(files, example) -> None:
    for split, path in files.items():
        dataset = SftDataset.from_jsonl(path)
        assert len(dataset) == example["make_data"].ROWS[split]
        assert warnings_of(dataset) == ()
        assert len(set(texts_of(path))) == len(dataset)


def test_the_same_seed_gives_the_same_bytes_on_every_machine_and_another_seed_gives_others(
    files, example, tmp_path
) -> None:
    found = {split: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for split, path in files.items()}
    assert found == DIGESTS
    sizes = ["--train", "5", "--validation", "5", "--held-out", "5"]
    example["make_data"].main([str(tmp_path / "a"), *sizes])
    example["make_data"].main([str(tmp_path / "b"), *sizes, "--seed", "1"])
    for split, path in files.items():
        first = (tmp_path / "a" / path.name).read_bytes()
        assert path.read_bytes().startswith(first)
        assert (tmp_path / "b" / path.name).read_bytes() != first


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_no_sentence_and_no_text_is_in_two_splits(one, other, example, files) -> None:
    sentences = example["sentences"].SENTENCES
    bare = {
        split: {re.sub(r"\{\w+\}", "", text).casefold().strip(" .,!?:") for text in sentences[split]}
        for split in (one, other)
    }
    assert len(set(sentences[one])) == len(sentences[one])
    assert not bare[one] & bare[other] - {""}
    assert not set(texts_of(files[one])) & set(texts_of(files[other]))


@pytest.mark.parametrize("label", ["NAME", "EMAIL", "PHONE", "ADDRESS", "CARD"])
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_no_personal_value_is_in_two_splits(label, one, other, records) -> None:
    values = {split: values_of(records[split], label) for split in (one, other)}
    assert min(map(len, values.values())) > 20
    assert not values[one] & values[other]


@pytest.mark.parametrize("part", ["first_names", "last_names", "streets", "towns", "lines"])
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_values_are_made_of_parts_that_no_other_split_has(part, one, other, example) -> None:
    found = {split: set(getattr(example["fictional"].PARTS[split], part)) for split in (one, other)}
    assert all(len(found[split]) == len(getattr(example["fictional"].PARTS[split], part)) for split in found)
    assert not found[one] & found[other]


def test_numbers_and_addresses_of_mail_are_reserved_ones(records, example) -> None:
    everything = [record for split in SPLITS for record in records[split]]
    for phone in values_of(everything, "PHONE"):
        assert re.fullmatch(r"(\(\d{3}\) |\d{3}-|\+1 \d{3} )?555-01\d\d", phone)
    for email in values_of(everything, "EMAIL"):
        assert re.fullmatch(r"[a-z._]+@example\.(com|net|org)", email)


def test_no_generated_card_number_passes_the_check_of_card_numbers(records, example) -> None:
    def passes(digits: str) -> bool:
        doubled = [int(d) * (1 + place % 2) for place, d in enumerate(reversed(digits))]
        return sum(sum(map(int, str(value))) for value in doubled) % 10 == 0

    assert passes("4111111111111111") and not passes("4111111111111112")
    assert example["fictional"].luhn_digit(411111111111111) == 1
    cards = {card for split in SPLITS for card in values_of(records[split], "CARD")}
    assert len(cards) > 300
    for card in cards:
        digits = re.sub("[ -]", "", card)
        assert len(digits) == 16 and not passes(digits)


def test_the_answer_is_the_sentence_with_its_labels_in_place(records, example) -> None:
    """Harmless values stay; each personal place becomes its label: so the answer follows from the sentence."""
    for split in SPLITS:
        for record in records[split]:
            pattern = re.escape(re.sub(r"\{([A-Z]+)\}", r"[\1]", record.source))
            pattern = re.sub(r"\\{[a-z]+\\}", r"[\\w$.:]+", pattern)
            assert re.fullmatch(pattern, example["mapping"].mask(record))
            for span in record.spans:
                assert record.text[span.start : span.end] not in example["mapping"].mask(record)


def test_every_split_has_texts_without_personal_data_and_each_sentence_equally_often(records) -> None:
    for split in SPLITS:
        bare = [record for record in records[split] if not record.spans]
        assert 0.05 < len(bare) / len(records[split]) < 0.25
        sources = [record.source for record in records[split]]
        assert {sources.count(source) for source in set(sources)} <= {10, 20, 40}


def write_corpus(path: Path, *records: object) -> Path:
    path.write_text(
        "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8"
    )
    return path


def labelled(text: str, *values: str) -> dict[str, object]:
    spans = [
        {"start": text.index(value), "end": text.index(value) + len(value), "label": "NAME"}
        for value in values
    ]
    return {"text": text, "spans": spans}


def test_a_corpus_of_ones_own_is_dealt_out_with_nothing_twice_and_all_that_is_left_out_counted(
    example, tmp_path, capsys
) -> None:
    first = labelled("Ask Zoë B. today.", "Zoë B.")
    others = [
        first,
        labelled("  "),
        labelled("Nothing here."),
        labelled("a" * 401),
        labelled("Uma meets Ede.", "Ede", "Uma"),
    ]
    sizes = ["--validation", "1", "--held-out", "1"]
    short = write_corpus(tmp_path / "short.jsonl", first, *others)
    with pytest.raises(SystemExit):
        example["make_data"].main([str(tmp_path / "none"), "--corpus", str(short), *sizes])
    assert "no validation rows" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    mine = write_corpus(tmp_path / "mine.jsonl", labelled("Tell Zoë.", "Zoë"), *others)
    arguments = [str(tmp_path), "--corpus", str(mine), "--train", "3", *sizes]
    assert example["make_data"].main(arguments) == 0
    answers = {
        split: [row["messages"][2]["content"] for row in SftDataset.from_jsonl(tmp_path / f"{split}.jsonl")]
        for split in SPLITS
    }
    assert answers == {
        "held_out": ["Tell [NAME]."],
        "validation": ["Ask [NAME] today."],
        "train": ["Nothing here.", "[NAME] meets [NAME]."],
    }
    assert "2 rows" in (out := capsys.readouterr().out)
    assert "left out: 1 blank, 1 too long" in out


def test_an_endless_corpus_is_read_to_twice_the_rows_and_no_further(example) -> None:
    read = []

    def endless():
        while True:
            read.append(1)
            yield example["corpus"].Record(text="the same", spans=(), source="")

    mapped = example["mapping"].map_records(endless(), rows=7, seen=set())
    assert (len(mapped.dataset), mapped.left_out, len(read)) == (1, {"seen before": 13}, 14)
    with pytest.raises(SftDatasetError):
        example["mapping"].map_records(iter(()), rows=7, seen=set())


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"text": "abc"}, "'spans' is missing"),
        ({"text": "abc", "spans": [{"start": 0, "end": 4, "label": "X"}]}, "0 to 4"),
        ({"text": "abc", "spans": [{"start": 1, "end": 1, "label": "X"}]}, "1 to 1"),
        ({"text": "abc", "spans": [{"start": -1, "end": 1, "label": "X"}]}, "-1 to 1"),
        (
            {
                "text": "abcd",
                "spans": [{"start": 2, "end": 4, "label": "X"}, {"start": 0, "end": 3, "label": "Y"}],
            },
            "2 to 4 overlaps",
        ),
        ({"text": "abc", "spans": [{"start": "0", "end": 1, "label": "X"}]}, "int"),
        ({"text": "abc", "spans": [{"start": 0, "end": 1}]}, "label"),
        ({"text": 5, "spans": []}, '"text"'),
        ([], "an object"),
    ],
)
def test_a_record_that_is_wrong_is_named_with_its_line(example, tmp_path, record, words) -> None:
    corpus = write_corpus(tmp_path / "mine.jsonl", labelled("fine"), record)
    with pytest.raises(ValueError, match="line 2: ") as error:
        list(example["corpus"].read_records(corpus))
    assert words in str(error.value)


def test_the_config_names_the_files_that_the_script_writes(example) -> None:
    config = load_sft_config(FOLDER / "finetune.toml")
    data = example["make_data"].DATA
    assert config.data.train == data / "train.jsonl"
    assert config.data.eval == data / "held_out.jsonl"
    assert config.model.id == "smollm2-135m"


def test_generating_leaves_the_random_state_of_the_process_alone(example) -> None:
    before = random.getstate()
    list(islice(example["corpus"].generate_records("train", seed=0), 5))
    assert random.getstate() == before


def launch(monkeypatch, home, *arguments):
    monkeypatch.setenv("CASTFORM_HOME", str(home))
    monkeypatch.delenv("CASTFORM_MODEL", raising=False)
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("launch").main(list(arguments))


def test_launching_uploads_what_the_files_hold_and_starts_nothing_unless_told_to(
    example, files, tmp_path, monkeypatch, capsys
) -> None:
    assert launch(monkeypatch, tmp_path) == 0
    said = capsys.readouterr().out
    (train,) = (tmp_path / "storage" / "datasets" / "pii-masking").glob("*/train.jsonl")
    assert train.read_bytes() == files["train"].read_bytes()
    assert train.with_name("eval.jsonl").read_bytes() == files["held_out"].read_bytes()
    assert "480 rows to train on and 120 held out" in said and "nothing was started" in said
    assert not (tmp_path / "runs.db").exists()


def test_launching_without_a_model_says_what_is_missing(example, tmp_path, monkeypatch, capsys) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("launching needs the train extra")
    with pytest.raises(SystemExit) as ended:
        launch(monkeypatch, tmp_path, "--launch")
    assert ended.value.code == 2
    assert "no model was named" in capsys.readouterr().err


async def test_the_environment_pays_the_masked_text_and_nothing_else(files, tmp_path) -> None:
    folder = shutil.copytree(
        FOLDER, tmp_path / "example", ignore=shutil.ignore_patterns("data", "__pycache__")
    )
    shutil.copytree(files["train"].parent, folder / "data")
    loaded = load_environment(str(folder / "masking_env.py"))
    environment = loaded.environment
    assert len(await environment.create_dataset("train", loaded.base_dir)) == 480
    held_out = await environment.create_dataset("eval", loaded.base_dir, max_examples=3)
    example = held_out[0]
    right = environment.gold(example)
    assert example.payload["prompt_messages"][1]["content"] == texts_of(files["held_out"])[0] != right
    async with FakeModel(lambda request: [right, right + ".", ""][int(request.session_id[-1])]) as model:
        group = await model.run_group(environment, example, size=3)
    await environment.aclose()
    assert [rollout.rewards["exact"] for rollout in group.rollouts] == [1.0, 0.0, 0.0]
