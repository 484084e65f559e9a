"""Which rollouts of a run become rows: each is used or left out for a reason, in a fixed order."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmax.sft import SftDataset
from castform.errors import RunFailedError, UsageError
from castform.runs import RunStore
from castform.sft.from_runs import Choice, convert_runs, default_split, write_rows
from castform.sft.from_runs.tokens import read_token_rows, row_digest, tokens_path

sys.path.insert(0, str(Path(__file__).parent))
from stored_runs import (
    CALLS,
    MARKS,
    TOOL,
    make_call,
    make_rollout,
    make_talk,
    result,
    says,
    store_run,
    tool_call,
    user,
)


@pytest.fixture
def store(tmp_path):
    with RunStore.open(tmp_path, url=f"sqlite:///{tmp_path}/runs.db") as store:
        yield store


def answer(
    text, score=1.0, *, sample=0, group="g", question="q", finish="stop", ids=((1, 2), (3, 4)), **more
):
    """Return a rollout of one turn."""
    call = make_call([user(question)], says(text), session=f"{group}-{sample}", finish=finish, ids=ids)
    return make_rollout([call], score, sample=sample, group=group, **more)


def rows_of(converted):
    return [json.loads(row) for row in converted.rows]


def outcomes_of(converted):
    return {each.rollout_id: each.outcome for each in converted.report.rollouts}


def last_texts(converted):
    return [row["messages"][-1]["content"] for row in rows_of(converted)]


def test_the_best_of_each_group_are_taken(store):
    run = store_run(
        store,
        [
            answer("a", 0.1),
            answer("b", 0.9, sample=1),
            answer("c", 0.5, sample=2),
            answer("d", 0.9, sample=3),
        ],
        [answer("e", 0.0, group="h", question="r"), answer("f", -1.0, sample=1, group="h", question="r")],
    )
    assert last_texts(convert_runs(store, [run], Choice())) == list("abcdef")
    best = convert_runs(store, [run], Choice(best_of=1))
    assert last_texts(best) == ["b", "e"]  # of equal ones the first
    assert last_texts(convert_runs(store, [run], Choice(best_of=3))) == ["b", "c", "d", "e", "f"]
    assert outcomes_of(best) == {
        "g-0": "not among the best 1",
        "g-1": "used",
        "g-2": "not among the best 1",
        "g-3": "not among the best 1",
        "h-0": "used",
        "h-1": "not among the best 1",
    }
    assert convert_runs(store, [run], Choice(best_of=1, min_reward=0.5)).report.counts == {
        "used": 1,
        "below 0.5": 3,
        "not among the best 1": 2,
    }


def test_best_of_counts_over_the_groups_of_an_example_when_asked(store):
    groups = [
        [answer("a", 0.1)],
        [answer("b", 0.9, group="h")],
        [answer("c", 0.5, group="i", example_id="other")],
    ]
    run = store_run(store, *groups, steps=[1, 2, 2])
    assert last_texts(convert_runs(store, [run], Choice(best_of=1))) == ["a", "b", "c"]
    assert last_texts(convert_runs(store, [run], Choice(best_of=1, per_example=True))) == ["b", "c"]
    again = store_run(store, [answer("d", 1.0)])
    assert last_texts(convert_runs(store, [run, again], Choice(best_of=1, per_example=True))) == ["c", "d"]


def test_the_order_is_that_of_steps_groups_and_samples_however_fast_each_was_stored(store):
    names = ["eval-10", "eval-2", "eval-0"]
    groups = [[answer(name, group=name, question=name)] for name in names]
    run = store_run(store, *groups, [answer("late", group="eval-1")], steps=[1, 1, 1, 0])
    assert last_texts(convert_runs(store, [run], Choice())) == ["late", "eval-0", "eval-2", "eval-10"]


def test_a_component_can_be_chosen_by(store):
    run = store_run(
        store,
        [
            answer("a", 1.0, rewards={"right": 0.0, "short": 1.0}),
            answer("b", 0.5, sample=1, rewards={"right": 1.0}),
        ],
    )
    assert last_texts(convert_runs(store, [run], Choice(reward="right", min_reward=1))) == ["b"]
    assert outcomes_of(convert_runs(store, [run], Choice(reward="short"))) == {
        "g-0": "used",
        "g-1": "no reward short",
    }
    with pytest.raises(UsageError, match="a reward called 'shrt'") as caught:
        convert_runs(store, [run], Choice(reward="shrt"))
    assert caught.value.hint == "it has right, short"


def test_failed_cut_and_held_out_rollouts_are_left_out_each_for_its_reason(store):
    run = store_run(
        store,
        [
            answer("a"),
            answer("b", None, sample=1, reason="model_error"),
            answer("c", sample=2, finish="length", reason="max_turns_exceeded"),
            answer("d", sample=3, finish="length", reason="output_exceeded"),
            make_rollout([], 0.0, sample=4),
        ],
        [answer("e", group="x", split="eval")],
    )
    converted = convert_runs(store, [run], Choice())
    assert outcomes_of(converted) == {
        "g-0": "used",
        "g-1": "not scored: model_error",
        "g-2": "a reply was cut",
        "g-3": "a reply was cut",
        "g-4": "no model was asked",
        "x-0": "of the split eval",
    }
    assert converted.report.rollouts[1].detail == "HTTP 500"
    assert last_texts(convert_runs(store, [run], Choice(with_cut=True))) == ["a", "c", "d"]
    assert last_texts(convert_runs(store, [run], Choice(split="eval"))) == ["e"]
    assert default_split(store, [run]) == "train"
    assert default_split(store, [store_run(store, [answer("e", split="eval")], kind="eval")]) == "eval"


def test_a_reward_that_is_no_number_is_never_chosen(store):
    run = store_run(
        store,
        [
            answer("a", float("nan"), rewards={}),
            answer("b", float("inf"), sample=1, rewards={}),
            answer("c", sample=2),
        ],
    )
    found = outcomes_of(convert_runs(store, [run], Choice(best_of=1)))
    assert found == {"g-0": "not scored: finished", "g-1": "its reward is no finite number", "g-2": "used"}


def test_the_same_conversation_is_taken_once_and_counted_and_does_not_use_up_the_best(store):
    run = store_run(
        store,
        [answer("a", 0.9), answer("a", 0.9, sample=1), answer("b", 0.5, sample=2)],
        [answer("a", 0.1, group="h")],
    )
    converted = convert_runs(store, [run], Choice(best_of=2))
    assert last_texts(converted) == ["a", "b"]
    assert [(each.outcome, each.detail) for each in converted.report.rollouts] == [
        ("used", ""),
        ("duplicate", "of g-0"),
        ("used", ""),
        ("duplicate", "of g-0"),
    ]
    assert last_texts(convert_runs(store, [run], Choice(with_duplicates=True))) == ["a", "a", "b", "a"]


def test_a_row_that_is_not_sound_is_refused_with_its_code_and_the_next_best_is_taken(store):
    talk = [
        user("q"),
        says(None, tool_call(arguments="{oops")),
        result("Invalid JSON tool arguments: x"),
        says("a"),
    ]
    no_result = [user("q"), says(None, tool_call())]
    run = store_run(
        store,
        [
            make_rollout(make_talk(*talk, tools=[TOOL]), 1.0),
            make_rollout(make_talk(*no_result, tools=[TOOL], session="g-1"), 0.9, sample=1),
            answer("", 0.8, sample=2),
            answer("b", 0.7, sample=3),
        ],
    )
    converted = convert_runs(store, [run], Choice(best_of=1))
    assert outcomes_of(converted) == {
        "g-0": "not sound: arguments_invalid_json",
        "g-1": "not sound: result_missing",
        "g-2": "not sound: assistant_empty, nothing_to_train",
        "g-3": "used",
    }
    assert "the arguments of" in converted.report.rollouts[0].detail


def test_turns_that_are_not_chosen_have_weight_0_and_their_ids_are_context(store):
    talk = [
        user("q"),
        says(None, tool_call()),
        result("Error: no"),
        says(None, tool_call("c2")),
        result("ok", "c2"),
        says("a"),
    ]
    run = store_run(store, [make_rollout(make_talk(*talk, tools=[TOOL]))])

    def weights(choice):
        converted = convert_runs(store, [run], choice)
        (row,), (tokens,) = rows_of(converted), converted.tokens
        trained = [turn.message for sample in tokens.samples for turn in sample.turns]
        found = [m.get("weight", 1) for m in row["messages"] if m["role"] == "assistant"]
        assert trained == [
            i for i, m in enumerate(row["messages"]) if m["role"] == "assistant" and m.get("weight", 1)
        ]
        return found, converted.report

    everything, report = weights(Choice())
    assert (everything, report.trained_turns, report.masked_turns) == ([1, 1, 1], 3, {})
    without, report = weights(Choice(without_failed_calls=True))
    assert (without, report.trained_turns, report.masked_turns) == ([0, 1, 1], 2, {"its tool call failed": 1})
    last, report = weights(Choice(turns="last"))
    assert (last, report.masked_turns) == ([0, 0, 1], {"not the last turn": 2})


def test_a_rollout_without_a_chosen_turn_is_left_out(store):
    talk = [user("q"), says(None, tool_call()), result("Error: no")]
    calls = make_talk(*talk, tools=[TOOL])
    run = store_run(store, [make_rollout(calls, transcript=talk)])
    assert outcomes_of(convert_runs(store, [run], Choice(without_failed_calls=True))) == {
        "g-0": "no turn chosen"
    }
    assert outcomes_of(convert_runs(store, [run], Choice())) == {"g-0": "used"}


def test_the_ids_are_those_of_the_calls_and_a_rewritten_history_gives_a_second_sample(store):
    stripped = make_call([user("a"), says("b"), user("c")], says("d"), index=1, ids=((1, 2, 9, 8), (7,)))
    first = make_call([user("a")], says("b", reasoning_content="hm"), ids=((1, 2), (3, 4)))
    run = store_run(store, [make_rollout([first, stripped])])
    converted = convert_runs(store, [run], Choice())
    ((row,), (tokens,)) = (converted.rows, converted.tokens)
    assert tokens.row_sha256 == row_digest(row)
    assert tokens.marks == MARKS
    assert [(s.ids, [(t.start, t.end, t.message) for t in s.turns]) for s in tokens.samples] == [
        ((1, 2, 3, 4), [(2, 4, 1)]),
        ((1, 2, 9, 8, 7), [(4, 5, 3)]),
    ]
    joined = make_rollout(make_talk(user("a"), says("b"), user("c"), says("d"), session="h-0"), group="h")
    (tokens,) = convert_runs(store, [store_run(store, [joined])], Choice()).tokens
    ((sample,),) = (tokens.samples,)
    assert [(t.start, t.end) for t in sample.turns] == [(19, 22), (39, 42)]


def test_calls_without_ids_give_rows_without_ids(store, tmp_path):
    run = store_run(store, [answer("a", ids=None), answer("b", sample=1)], marks=None)
    converted = convert_runs(store, [run], Choice())
    assert (converted.report.rows, converted.report.sampled_rows) == (2, 1)
    assert [row.row_sha256 for row in converted.tokens] == [row_digest(converted.rows[1])]
    assert converted.tokens[0].marks is None
    path = tmp_path / "rows.jsonl"
    assert write_rows(converted, path) == tmp_path / "rows.tokens.jsonl"
    assert tuple(read_token_rows(tokens_path(path))) == converted.tokens
    assert SftDataset.from_jsonl(path).to_jsonl_bytes() == path.read_bytes()
    none = convert_runs(store, [store_run(store, [answer("a", ids=None)])], Choice())
    assert write_rows(none, path) is None
    assert sorted(p.name for p in tmp_path.glob("rows*")) == ["rows.jsonl"]  # no ids of other rows stay


def test_a_run_whose_log_is_gone_is_read_from_its_transcripts(store):
    run = store_run(store, [answer("a")])
    (store.get_run(run).run_dir / CALLS).unlink()
    converted = convert_runs(store, [run], Choice())
    assert (last_texts(converted), converted.tokens) == (["a"], ())


def test_compaction_gives_two_rows_of_one_rollout_and_each_turn_once(store):
    first, second = make_talk(user("a"), says("b"), user("c"), says("d"))
    third = make_call([user("so far"), user("e")], says("f"), index=2, ids=((5,), (6,)))
    run = store_run(store, [make_rollout([first, second, third])])
    converted = convert_runs(store, [run], Choice())
    assert [row["metadata"]["part"] for row in rows_of(converted)] == [0, 1]
    (only,) = converted.report.rollouts
    assert (only.rows, only.sampled_rows, converted.report.trained_turns) == (2, 2, 3)


@pytest.mark.parametrize("status", ["running", None])
def test_a_run_that_goes_on_is_refused(store, status):
    run = store_run(store, [answer("a")], status=status)
    with pytest.raises(UsageError, match=f"run {run} is still going on"):
        convert_runs(store, [run], Choice())


@pytest.mark.parametrize("status", ["stopped", "failed"])
def test_what_an_ended_run_has_is_taken(store, status):
    assert len(convert_runs(store, [store_run(store, [answer("a")], status=status)], Choice()).rows) == 1


def test_runs_without_a_model_or_rollouts_are_refused(store):
    with pytest.raises(UsageError, match="is a run of validate"):
        convert_runs(store, [store_run(store, [answer("a")], kind="validate")], Choice())
    with pytest.raises(UsageError, match="has no rollouts"):
        convert_runs(store, [store_run(store)], Choice())


def test_a_damaged_call_log_is_named(store):
    run = store_run(store, [answer("a")])
    log = store.get_run(run).run_dir / CALLS
    log.write_bytes(log.read_bytes() + b"{\n")
    with pytest.raises(RunFailedError, match=r"000\.jsonl:2 is not a recorded call"):
        convert_runs(store, [run], Choice())


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"best_of": 0}, "best_of is 0"),
        ({"min_reward": float("nan")}, "min_reward is nan"),
        ({"per_example": True}, "there is no best_of"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(wrong, text):
    with pytest.raises(ValueError, match=text):
        Choice(**wrong)


SCORES = st.lists(st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=5)


@settings(deadline=None, max_examples=15)
@given(
    groups=st.lists(SCORES, min_size=1, max_size=3),
    best_of=st.one_of(st.none(), st.integers(1, 3)),
    floor=st.one_of(st.none(), st.sampled_from([0.0, 0.5])),
    texts=st.randoms(use_true_random=False),
)
def test_outcomes_add_up_and_nothing_better_is_left_out(tmp_path_factory, groups, best_of, floor, texts):
    home = tmp_path_factory.mktemp("home")
    with RunStore.open(home, url=f"sqlite:///{home}/runs.db") as store:
        stored = [
            [
                answer(texts.choice("abc"), score, sample=i, group=f"g{n}", question=f"q{n}")
                for i, score in enumerate(scores)
            ]
            for n, scores in enumerate(groups)
        ]
        choice = Choice(best_of=best_of, min_reward=floor)
        run = store_run(store, *stored)
        converted = convert_runs(store, [run], choice)
        assert convert_runs(store, [run], choice) == converted
    report = converted.report
    assert [each.rollout_id for each in report.rollouts] == [r.rollout_id for group in stored for r in group]
    assert report.rows == len(converted.rows) == report.counts["used"]
    assert sum(report.counts.values()) == len(report.rollouts)
    for n in range(len(stored)):
        mine = [each for each in report.rollouts if each.rollout_id.startswith(f"g{n}-")]
        used = [each.score for each in mine if each.outcome == "used"]
        beaten = [each.score for each in mine if each.outcome.startswith("not among")]
        assert best_of is None or len(used) <= best_of
        assert not beaten or (len(used) == best_of and min(used) >= max(beaten))
        assert all(floor is None or score >= floor for score in used)
