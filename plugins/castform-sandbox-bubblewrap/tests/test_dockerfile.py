"""Reading Dockerfiles, .dockerignore and refusing what is not done: no box needed."""

from __future__ import annotations

from pathlib import Path

import pytest
from castform_sandbox_bubblewrap.build import read_env
from castform_sandbox_bubblewrap.dockerfile import parse_dockerfile, split_words, substitute
from castform_sandbox_bubblewrap.ignore import is_ignored, list_context, parse_rules
from castform_sandbox_bubblewrap.refusals import check_instructions

from castform.sandbox.contract import ImageBuild
from castform.sandbox.errors import UsageError


def test_continuations_comments_and_blank_lines_make_one_instruction() -> None:
    lines = parse_dockerfile("FROM a\n\nRUN one && \\\n# a comment\n\n  two \\\n  three\nrun four\n")
    assert [(line.line, line.word, line.rest) for line in lines] == [
        (1, "FROM", "a"),
        (3, "RUN", "one &&   two   three"),
        (8, "RUN", "four"),
    ]


def test_another_escape_sign_leaves_backslashes_alone() -> None:
    (line,) = parse_dockerfile("# escape=`\nRUN echo \\ `\n  more\n")
    assert line.rest == "echo \\   more"


def test_heredocs_belong_to_their_instruction() -> None:
    lines = parse_dockerfile("RUN <<A cat <<-'B'\nline $X\nA\n\tquoted $X\n\tB\nCMD x\n")
    assert [(one.name, one.text, one.plain) for one in lines[0].heredocs] == [
        ("A", "line $X\n", False),
        ("B", "quoted $X\n", True),
    ]
    assert lines[1].word == "CMD"


@pytest.mark.parametrize(
    "words",
    ["echo $((1<<3))", "python3 -c 'print(1 <<2)'", 'sh -c "cat <<END"', "cat <<<word", "echo a<<b"],
)
def test_what_only_looks_like_a_heredoc_begins_none(words: str) -> None:
    assert [line.rest for line in parse_dockerfile(f"RUN {words}\nRUN next\n")] == [words, "next"]


def test_a_heredoc_without_an_end_is_refused_with_its_line() -> None:
    with pytest.raises(UsageError, match=r"line 2 .*END has no end"):
        parse_dockerfile("FROM a\nRUN <<END\nx\n")


def test_flags_come_before_the_rest() -> None:
    (line,) = parse_dockerfile("COPY --chmod=755 --chown=a:b one two\n")
    assert (line.flags, line.rest) == ((("chmod", "755"), ("chown", "a:b")), "one two")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$A-${A}-\\$A", "1-1-$A"),
        ("${B:-x${A}} ${A:-x}", "x1 1"),
        ("${A:+y}${B:+y}", "y"),
        ("${E-z}${E:-z}", "z"),
        ("a$", "a$"),
        ("$5", "$5"),
    ],
)
def test_variables_are_filled_in(text: str, expected: str) -> None:
    assert substitute(text, {"A": "1", "E": ""}) == expected


def test_words_keep_quoted_blanks_and_single_quoted_dollars() -> None:
    assert split_words("""A="b c" 'd $E' f\\ g""") == ["A=b c", "d \\$E", "f g"]


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ('A=1 B="two words"', {"A": "1", "B": "two words"}),
        ("A all of it", {"A": "all of it"}),
        ("A=$X", {"A": "x"}),
    ],
)
def test_env_has_two_forms(rest: str, expected: dict[str, str]) -> None:
    (line,) = parse_dockerfile(f"ENV {rest}\n")
    assert read_env(line, {"X": "x"}) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FROM a AS one\nFROM b\nRUN x\n", "line 2 .*several stages"),
        ("FROM a\nCOPY --from=b /x /y\n", "line 2 .*--from=b"),
        ("FROM a\nADD https://example.org/x /y\n", "line 2 .*over the network"),
        ("FROM a\nUSER nobody\n", "line 2 .*root of the box only"),
        ("FROM a\nRUN --mount=type=secret,id=x cat /run/x\n", "line 2 .*--mount"),
        ("FROM a\nONBUILD RUN x\n", "line 2 .*does not know"),
        ("FROM a\nCOPY one\n", "line 2 .*a source and a destination"),
        ("FROM a\nCOPY --chmod=u+x one two\n", "line 2 .*octal"),
        ("RUN x\n", "no FROM"),
    ],
    ids=["stages", "copy-from", "add-url", "user", "mount", "onbuild", "copy", "chmod", "no-from"],
)
def test_what_is_not_done_is_refused_with_line_and_reason(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_instructions(parse_dockerfile(text), users=False)


def test_what_says_nothing_of_files_or_commands_is_let_pass() -> None:
    text = "ARG V=1\nFROM a:$V\nLABEL a=b\nEXPOSE 80\nHEALTHCHECK NONE\nSTOPSIGNAL SIGTERM\nUSER root\n"
    check_instructions(parse_dockerfile(text), users=False)


@pytest.mark.parametrize(
    ("path", "ignored"),
    [
        ("a.key", True),
        ("deep/er/b.key", True),
        ("deep/er/keep.key", False),
        ("node_modules/x/y", True),
        ("src/node_modules", False),
        ("src/ab.c", True),
        ("src/abc.c", False),
        ("src/deep/ab.c", False),
    ],
)
def test_dockerignore_patterns(path: str, ignored: bool) -> None:
    rules = parse_rules("# comment\n**/*.key\n!**/keep.key\n/node_modules\nsrc/?b.c\n")
    assert is_ignored(path, rules) is ignored


def test_an_ignored_folder_is_searched_for_exceptions(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM a\n")
    (tmp_path / ".dockerignore").write_text("out\n!out/kept\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kept").write_text("")
    (tmp_path / "out" / "left").write_text("")
    assert list_context(ImageBuild(context=tmp_path)) == [".dockerignore", "Dockerfile", "out/kept"]
