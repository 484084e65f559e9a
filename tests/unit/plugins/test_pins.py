"""What a pin is made of, and how a change of it is told."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path

import pytest

from benchmax.envs import Example
from castform.plugins import EnvironmentPin, fingerprint_examples
from castform.plugins.fingerprints import MOST_MARKED, first_difference, mark_examples
from castform.plugins.pin_changes import describe_changes
from castform.plugins.pins import (
    PinDetails,
    digest_pin,
    find_local_imports,
    hash_content,
    hash_environment_file,
    hash_files,
    mark_files,
)


def examples(*payloads, first=0):
    return [Example(f"e{first + i}", payload) for i, payload in enumerate(payloads)]


def make_pin(**changes) -> EnvironmentPin:
    values = {
        "id": "arith/add",
        "distribution": "castform-env-arith",
        "version": "1.0",
        "content_sha256": "a" * 64,
        "args": {"operands": 2},
    }
    return EnvironmentPin(**{**values, **changes})


# -- the fingerprint of examples ----------------------------------------------------------------


def test_a_fingerprint_depends_on_ids_payloads_and_order_and_on_nothing_else():
    known = fingerprint_examples(examples({"a": 1, "b": [1.0, None]}, {"q": "é"}))
    assert known == fingerprint_examples(examples({"b": (1, None), "a": 1}, {"q": "é"}))
    assert len(known) == 64
    different = [
        examples({"q": "é"}, {"a": 1, "b": [1.0, None]}),
        examples({"a": 1, "b": [1.0, None]}),
        examples({"a": 1, "b": [1.0, None]}, {"q": "é"}, first=1),
        examples({"a": True, "b": [1.0, None]}, {"q": "é"}),
        examples({"a": 1, "b": [1.0, None]}, {"q": "e"}),
    ]
    assert len({known, *map(fingerprint_examples, different)}) == 6


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass
class Task:
    words: object
    note: str = ""


class Plain:
    def __init__(self, **values):
        self.__dict__.update(values)


class Odd:
    def __repr__(self):
        raise RuntimeError("no")


def array(values, dtype="int64"):
    import numpy

    return numpy.array(values, dtype=dtype)


@pytest.mark.parametrize(
    ("value", "other"),
    [
        ({1, 2, 3}, {1, 2, 4}),
        (b"one", b"two"),
        (float("nan"), float("inf")),
        (2**60, 2**60 + 1),
        (Colour.RED, Colour.BLUE),
        (Task({"a", "b"}), Task({"a", "c"})),
        (Task({"a"}, "x"), Task({"a"}, "y")),
        (Plain(a=1), Plain(a=2)),
        (Plain(a=Plain(b={3})), Plain(a=Plain(b={4}))),
        ({1: "x"}, {2: "x"}),
        ({(1, 2): "x"}, {(1, 2): "y"}),
        (Decimal("1.5"), Decimal("2.5")),
        (Path("a"), Path("b")),
        (array(range(5000)), array([*range(2500), 0, *range(2501, 5000)])),
        (array([1, 2]), array([[1, 2]])),
        (array([1, 2]), array([1, 2], "int32")),
        ({"deep": [{"set": {"x"}}]}, {"deep": [{"set": {"y"}}]}),
        (Odd(), Plain()),
        ("1", 1),
    ],
)
def test_payloads_that_are_no_json_are_told_apart_by_what_is_in_them(value, other):
    first, second = ({"value": item} for item in (value, other))
    assert fingerprint_examples(examples(first)) == fingerprint_examples(examples(dict(first)))
    assert fingerprint_examples(examples(first)) != fingerprint_examples(examples(second))


def test_a_fingerprint_is_the_same_in_every_process():
    code = """
from benchmax.envs import Example
from castform.plugins import fingerprint_examples
class Thing:
    def __init__(self): self.words = {"alpha", "beta", "gamma", "delta"}; self.call = print
class Bare:
    __slots__ = ()
payload = {"a": {"one", "two", "three"}, "b": Thing(), "c": b"x", "d": Bare()}
print(fingerprint_examples([Example("e", payload)]))
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


def test_a_payload_that_holds_itself_has_a_fingerprint():
    loop: dict = {"x": {1}}
    loop["self"] = loop
    assert fingerprint_examples(examples(loop)) == fingerprint_examples(examples(loop))


def test_marks_find_the_first_example_that_differs():
    old = mark_examples(examples("a", "b", "c")).as_dict()
    assert old["count"] == 3 and len(old["marks"]) == 24
    cases = [(("a", "x", "c"), 1), (("x", "b", "c"), 0), (("a", "b"), 2), (("a", "b", "c", "d"), 3)]
    for payloads, place in cases:
        assert first_difference(old, mark_examples(examples(*payloads))) == place
    assert first_difference({"count": 3, "marks": ""}, mark_examples(examples("a"))) is None
    assert first_difference(old, mark_examples([])) is None


def test_very_many_examples_are_counted_but_not_marked():
    one = Example("e", "a")
    assert len(mark_examples([one] * MOST_MARKED).marks) == 8 * MOST_MARKED
    many = mark_examples([one] * (MOST_MARKED + 1))
    assert (many.count, many.marks) == (MOST_MARKED + 1, "")


# -- the content ----------------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "castform_env_x"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "env.py").write_text("x = 1\n")
    (folder / "data" / "words.txt").write_text("a b")
    return folder


def test_every_file_of_a_package_counts_and_so_does_its_name(package):
    seen = [hash_content(package)]
    (package / "env.py").write_text("x = 2\n")
    seen.append(hash_content(package))
    (package / "data" / "words.txt").write_text("a c")
    seen.append(hash_content(package))
    (package / "data" / "words.txt").rename(package / "data" / "other.txt")
    seen.append(hash_content(package))
    (package / "data" / "certificates").mkdir()
    (package / "data" / "certificates" / "x.json").write_text("{}")
    seen.append(hash_content(package))
    (package / "certificates.py").write_text("")
    seen.append(hash_content(package))
    assert len(set(seen)) == 6


def test_certificates_and_caches_do_not_count(package):
    before = hash_content(package)
    for name in (
        "certificates/add.json",
        "certificates/deep/x.py",
        "__pycache__/env.pyc",
        "data/__pycache__/x",
    ):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("{}")
    (package / "old.pyc").write_text("")
    (package / "old.pyo").write_text("")
    assert hash_content(package) == before


def test_files_are_in_the_order_of_their_folders_and_links_to_folders_are_not_followed(package, tmp_path):
    for name in ("data-2.txt", "data/.pyc", "data/ä", "data/b/c", ".hidden", "certificates.pyc"):
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_text("x")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.py").write_text("a b")
    (package / "linked").symlink_to(tmp_path / "elsewhere")
    (package / "linked.py").symlink_to(tmp_path / "elsewhere" / "x.py")
    (package / "gone.py").symlink_to(tmp_path / "nowhere")
    (package / "round").symlink_to("round")
    files = hash_files(package)
    assert list(files) == [
        ".hidden",
        "__init__.py",
        "data/.pyc",
        "data/b/c",
        "data/words.txt",
        "data/ä",
        "data-2.txt",
        "env.py",
        "linked.py",
    ]
    assert files["linked.py"] == files["data/words.txt"] == hashlib.sha256(b"a b").hexdigest()
    assert hash_files(str(package)) == files
    assert hash_files(package / "env.py") == {"env.py": files["env.py"]}


def test_the_content_of_a_file_is_the_file_and_the_modules_beside_it_that_it_imports(tmp_path):
    main = tmp_path / "env.py"
    main.write_text("import json\nimport one.sub\n\ndef later():\n    from two import x\n")
    (tmp_path / "two.py").write_text("from three import y\nimport env\n")
    (tmp_path / "three.py").write_text("import two\n")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "__init__.py").write_text("from . import sub, four\n")
    (tmp_path / "one" / "sub.py").write_text("")
    (tmp_path / "four.py").write_text("")
    (tmp_path / "data.jsonl").write_text("{}")
    names = ["env.py", "one/__init__.py", "one/sub.py", "three.py", "two.py"]
    assert list(hash_environment_file(main)) == names
    before = hash_environment_file(main)
    (tmp_path / "three.py").write_text("import two  # changed\n")
    after = hash_environment_file(main)
    assert [name for name in names if before[name] != after[name]] == ["three.py"]
    (tmp_path / "two.py").write_text("this is no Python")
    assert [file.name for file in find_local_imports(main)] == ["__init__.py", "sub.py", "two.py"]


def test_a_file_alone_has_the_hash_of_its_content(tmp_path):
    from castform.plugins.pins import combine_hashes

    main = tmp_path / "env.py"
    main.write_text("import json\n")
    assert combine_hashes(hash_environment_file(main)) == hash_content(main)


# -- the pin ----------------------------------------------------------------------------------------


def test_a_digest_depends_on_every_part_of_a_pin_but_not_on_its_details():
    pin = make_pin()
    changed = [
        make_pin(id="arith/sub"),
        make_pin(distribution="other"),
        make_pin(version="1.1"),
        make_pin(content_sha256="b" * 64),
        make_pin(args={"operands": 3}),
        pin.with_examples(train=examples("a")),
        pin.with_examples(eval=examples("a")),
    ]
    assert len({pin.digest(), *(other.digest() for other in changed)}) == 8
    detailed = make_pin(details=PinDetails(files={"a.py": "1"}))
    assert (detailed, detailed.digest()) == (pin, pin.digest())
    assert "details" not in detailed.as_dict()


def test_a_pin_from_before_datasets_keeps_its_digest():
    old = {name: value for name, value in make_pin().as_dict().items() if name != "datasets"}
    assert digest_pin(old) == make_pin().digest()


def test_examples_are_added_split_by_split():
    train, held_out = examples("a", "b"), examples("c")
    pin = make_pin().with_examples(train=train).with_examples(eval=held_out)
    assert pin.datasets == {
        "train": fingerprint_examples(train),
        "eval": fingerprint_examples(held_out),
    }
    assert {split: marks.count for split, marks in pin.details.examples.items()} == {"train": 2, "eval": 1}
    assert pin.as_dict()["datasets"] == pin.datasets
    assert pin == make_pin().with_examples(train=train, eval=held_out)


# -- what changed -----------------------------------------------------------------------------------


def changes(old: EnvironmentPin, new: EnvironmentPin, **more):
    return describe_changes(old.as_dict(), new, details=old.details.as_dict(), **more)


def files(**hashes):
    return PinDetails(files={f"{name}.py": value for name, value in hashes.items()})


def test_the_same_environment_has_no_changes():
    assert changes(make_pin(), make_pin()) == []
    pin = make_pin().with_examples(train=examples("a"))
    assert changes(pin, pin) == []
    assert changes(make_pin(), make_pin(version="1.1")) == []


def test_an_old_pin_is_compared_by_what_it_says():
    pin = make_pin().with_examples(train=examples("a"))
    old = {name: value for name, value in make_pin().as_dict().items() if name != "datasets"}
    assert describe_changes(old, pin) == []
    assert describe_changes(old, make_pin(content_sha256="b" * 64, version="2")) == [
        "version 1.0 -> 2",
        "its files differ",
    ]


def test_files_are_named_by_what_happened_to_them():
    old = make_pin(details=files(a="1", b="1", c="1"))
    new = make_pin(content_sha256="b" * 64, details=files(a="1", b="2", d="1"))
    assert changes(old, new) == ["files: changed b.py; new d.py; gone c.py"]
    many = make_pin(content_sha256="b" * 64, details=files(**{f"n{i}": "1" for i in range(7)}))
    assert changes(make_pin(details=files(n0="1")), many) == [
        "files: new n1.py, n2.py, n3.py, n4.py, n5.py and 1 more"
    ]
    assert mark_files({"a": "0123456789abcdefXYZ"}) == {"a": "0123456789abcdef"}


def test_another_environment_is_named_with_both_names():
    new = make_pin(id="mine.py:Mine", distribution="", version="", content_sha256="b" * 64)
    assert changes(make_pin(), new) == [
        "environment arith/add -> mine.py:Mine",
        "distribution castform-env-arith -> a file",
        "version 1.0 -> ?",
        "its files differ",
    ]


def test_arguments_are_compared_as_they_are_stored():
    old, new = make_pin(args={"a": (1, 2), "b": 1, "c": "x"}), make_pin(args={"a": [1, 2], "b": 2, "d": None})
    assert changes(old, new) == [
        "argument b: 1 -> 2",
        'argument c: "x" -> not there',
        "argument d: not there -> null",
    ]


@pytest.mark.parametrize(
    ("now", "line"),
    [
        (("a", "x", "c"), "3 examples then, 3 now; the first that differs is 'e1'"),
        (("a", "b", "c", "d"), "3 examples then, 4 now; new from 'e3' on"),
        (("a",), "3 examples then, 1 now; what is left is the same"),
    ],
)
def test_a_dataset_that_changed_names_its_first_difference(now, line):
    old, current = make_pin().with_examples(train=examples("a", "b", "c")), examples(*now)
    new = make_pin().with_examples(train=current)
    assert changes(old, new, examples={"train": current}) == [f"train dataset: {line}"]
    assert "number" in changes(old, make_pin().with_examples(train=examples("x")))[0]
    assert describe_changes(old.as_dict(), new) == ["train dataset: other examples"]


def test_a_dataset_beyond_the_marks_tells_its_sizes():
    old = make_pin().with_examples(train=examples("a"))
    details = {"examples": {"train": {"count": 60000, "marks": ""}}}
    new = make_pin().with_examples(train=examples("b"))
    assert describe_changes(old.as_dict(), new, details=details) == [
        "train dataset: 60000 examples then, 1 now"
    ]
