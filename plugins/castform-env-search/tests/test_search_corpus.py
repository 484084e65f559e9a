from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from castform_env_search import index as index_module
from castform_env_search.client import Bm25Search
from castform_env_search.config import SearchConfig
from castform_env_search.corpus import Document, cut_text, hash_documents, list_files, read_folder
from castform_env_search.environment import SearchEnv, load_question_set
from castform_env_search.index import Bm25Index, cut_words, load_index
from castform_env_search.questions import read_questions, split_of

from castform.plugins import load_environment

ROWS = [
    {"id": "z1", "text": "Quinces keep until March.", "title": "Quinces"},
    {"source": "z2", "content": "Medlars are eaten late.", "metadata": {"year": 3}},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    corpus = tmp_path / "corpus"
    (corpus / "a").mkdir(parents=True)
    (corpus / ".git").mkdir()
    (corpus / "a" / "README.md").write_text(
        "# Lamps\n\nThe lamp is kept by Odo.\n\n## Oil\n\nIt burns colza.\n"
    )
    (corpus / "b.txt").write_text("\ufeffThe bell hangs in Brannoch.\r\n\r\nIt is rung at noon.")
    (corpus / "rows.jsonl").write_text("".join(json.dumps(row) + "\n\n" for row in ROWS))
    (corpus / ".git" / "x.md").write_text("hidden")
    (corpus / "c.pdf").write_text("not read")
    return corpus


def test_a_folder_gives_pieces_under_headings_and_a_document_a_line(folder: Path) -> None:
    documents = read_folder(folder)
    assert [(d.source, d.title, d.content) for d in documents] == [
        ("a/README.md", "Lamps", "The lamp is kept by Odo."),
        ("a/README.md", "Oil", "It burns colza."),
        ("b.txt", "", "The bell hangs in Brannoch.\n\nIt is rung at noon."),
        ("z1", "Quinces", "Quinces keep until March."),
        ("z2", "", "Medlars are eaten late."),
    ]
    assert documents[-1].metadata == {"year": 3}


async def test_the_title_is_shown_where_the_text_does_not_name_it(folder: Path) -> None:
    client = Bm25Search(folder)
    (oil,) = await client.search("colza", top_k=2)
    assert (oil["source"], oil["metadata"], oil["content"]) == (
        "a/README.md",
        {"title": "Oil"},
        "It burns colza.",
    )
    (quinces,) = await client.search("QUINCES!")
    assert quinces["metadata"] == {}
    assert await client.search("the of a") == await client.search("zeppelin") == []


def test_long_text_is_cut_between_paragraphs_and_words() -> None:
    pieces = cut_text("# H\n\n" + "\n\n".join(["word " * 10] * 6), characters=120)
    assert [heading for heading, _ in pieces] == ["H"] * 3
    assert all(len(text) <= 120 for _, text in pieces)
    (first, second, third) = cut_text("x" * 250, characters=100)
    assert [len(text) for _, text in (first, second, third)] == [100, 100, 50]
    assert cut_text("\n \n# only a heading\n") == []
    joined = " ".join(text for _, text in cut_text("one two three " * 200, characters=100))
    assert joined.split() == ["one", "two", "three"] * 200


def test_a_changed_file_is_read_again_and_an_unchanged_one_is_not(folder: Path) -> None:
    first = load_index(folder)
    assert load_index(folder) is first
    (folder / "b.txt").write_text("The bell was sold to a circus.")
    second = load_index(folder)
    assert second is not first
    assert [d.source for d, _ in second.search("circus", 3)] == ["b.txt"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.jsonl", '{"text": "a"}\n{broken', r"x\.jsonl:2 is not JSON"),
        ("x.jsonl", "[1]", "is a list, not a JSON object"),
        ("x.jsonl", '{"body": "a"}', "no text in 'content' or 'text'; it has body"),
        ("x.md", b"\xff\xfe\x00", "not UTF-8"),
        ("x.pdf", "text", r"no text in a \.md, \.txt, \.jsonl file"),
        ("x.md", "# heading\n", "has no text"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, name: str, content: str | bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=words):
        read_folder(tmp_path)


def documents(count: int) -> list[Document]:
    return [Document(source=f"d{i}", title="", content=f"common word{i} text") for i in range(count)]


def test_ties_stay_in_the_order_of_the_corpus_and_a_limit_is_kept() -> None:
    index = Bm25Index(documents(30))
    assert [d.source for d, _ in index.search("common", 4)] == ["d0", "d1", "d2", "d3"]
    assert [d.source for d, _ in index.search("word7 common", 2)] == ["d7", "d0"]
    assert index.search("common", 99)[-1][0].source == "d29"
    assert all(score > 0 for _, score in index.search("common", 99))


def test_single_digits_letters_and_other_scripts_are_words() -> None:
    assert cut_words("The Élan of x7 — 5 Straße, Ωmega!") == ["élan", "x7", "5", "strasse", "ωmega"]


def test_an_index_of_a_large_corpus_is_kept_by_content_and_made_anew_when_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(index_module, "KEPT_FROM_CHARACTERS", 100)
    found = Bm25Index(documents(20), cache=tmp_path).search("word3", 3)
    (kept,) = tmp_path.iterdir()
    assert kept.name.startswith(hash_documents(documents(20))[:32])
    written = {path.name: path.stat().st_mtime_ns for path in kept.iterdir()}
    again = Bm25Index(documents(20), cache=tmp_path)
    assert again.search("word3", 3) == found
    assert {path.name: path.stat().st_mtime_ns for path in kept.iterdir()} == written
    next(kept.glob("*.npy")).write_bytes(b"junk")
    with caplog.at_level(logging.WARNING):
        assert Bm25Index(documents(20), cache=tmp_path).search("word3", 3) == found
    assert "made anew" in caplog.text
    assert Bm25Index(documents(20), cache=tmp_path).search("word3", 3) == found
    Bm25Index(documents(21), cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_small_corpus_leaves_nothing_on_disk(tmp_path: Path) -> None:
    Bm25Index(documents(20), cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_folder_without_room_still_searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "KEPT_FROM_CHARACTERS", 100)
    (tmp_path / "file").write_text("in the way")
    index = Bm25Index(documents(20), cache=tmp_path / "file" / "cache")
    assert [d.source for d, _ in index.search("word3", 1)] == ["d3"]


def write_questions(path: Path, *rows: Any) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


async def test_questions_about_ones_own_corpus_are_split_by_their_documents(
    folder: Path, tmp_path: Path
) -> None:
    for i in range(40):
        (folder / f"n{i}.md").write_text(f"Note {i} says {i * 7}.")
    rows = [
        {"question": f"What does note {i} say?", "answer": i * 7, "sources": [f"n{i}"]} for i in range(40)
    ]
    both = {
        "question": "Both?",
        "answer": "x",
        "sources": [
            "n0.md",
            next(f"n{i}.md" for i in range(40) if split_of(f"n{i}.md") != split_of("n0.md")),
        ],
    }
    chunk = {
        "question": "Who keeps the lamp?",
        "answer": "Odo",
        "reference_chunks": [{"metadata": {"file": "README.md"}}],
    }
    path = write_questions(tmp_path / "q.jsonl", *rows, both, "", chunk)
    environment = load_environment("search", {"corpus": str(folder), "questions": str(path)}).environment
    assert isinstance(environment, SearchEnv)
    train, evaluation = [list(await environment.create_dataset(s, Path())) for s in ("train", "eval")]
    assert len(train) + len(evaluation) == 41
    assert all(len(e.payload["prompt_messages"]) == 2 for e in train)
    sides = {
        c["metadata"]["source_id"]: split_of(c["metadata"]["source_id"])
        for e in train
        for c in e.payload["reference_chunks"]
    }
    assert set(sides.values()) == {"train"}
    (warning,) = environment.validation_diagnostics()
    assert (warning.severity, warning.code) == ("warning", "questions_left_out")
    assert warning.message.startswith("1 questions")


def test_held_out_questions_of_ones_own_are_taken_as_they_are(folder: Path, tmp_path: Path) -> None:
    first = write_questions(tmp_path / "t.jsonl", {"question": "a?", "answer": "1", "source": "b.txt"})
    second = write_questions(
        tmp_path / "e.jsonl", {"question": "b?", "answer": "2", "sources": ["b.txt", "z1"]}
    )
    config = SearchConfig(corpus=folder, questions=first, eval_questions=second)
    questions = load_question_set(config, Bm25Search(folder))
    assert [q.text for q in questions.train] == ["a?"]
    assert [(q.text, q.sources) for q in questions.eval] == [("b?", ("b.txt", "z1"))]


def test_all_that_is_wrong_with_a_questions_file_is_told_at_once(tmp_path: Path) -> None:
    good = {"question": "q?", "answer": "1", "sources": ["guide.md"]}
    path = write_questions(
        tmp_path / "q.jsonl",
        good,
        "{broken",
        [1],
        good | {"question": " "},
        good | {"answer": None},
        good | {"answer": True},
        good | {"sources": []},
        good | {"sources": ["giude.md"]},
        good,
    )
    with pytest.raises(ValueError) as caught:
        read_questions(path, ["guide.md", "other.md"])
    text = str(caught.value)
    for number, words in [
        (2, "is not JSON"),
        (3, "is a list"),
        (4, "'question'"),
        (5, "'answer'"),
        (6, "'answer'"),
        (7, "names no document"),
        (8, "did you mean 'guide.md'?"),
        (9, "asks again"),
    ]:
        assert f"q.jsonl:{number} " in text and words in text
    with pytest.raises(ValueError, match="has no questions"):
        read_questions(write_questions(tmp_path / "empty.jsonl"), [])


def test_a_pipe_or_a_device_of_questions_is_told_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "device.jsonl").symlink_to("/dev/zero")
    for name in ("pipe.jsonl", "device.jsonl"):
        with pytest.raises(ValueError, match=f"{name} is a pipe or a device; questions need a regular file"):
            read_questions(tmp_path / name, [])


def test_files_are_listed_by_their_path(folder: Path) -> None:
    assert [p.relative_to(folder).as_posix() for p in list_files(folder)] == [
        "a/README.md",
        "b.txt",
        "rows.jsonl",
    ]
