"""Segments: every sampled reply is trained once, whatever the shape of the tree."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform.calls import ModelCall
from castform.errors import RunFailedError
from castform_trainer.gateway.errors import UntrainableCallError
from castform_trainer.gateway.fidelity import check_fidelity, count_fidelity, count_reencoded
from castform_trainer.gateway.trajectory import build_segments


def make_call(index, prompt, sampled, *, choice=0, finish="stop", session="s", version=1):
    return ModelCall(
        call_id=f"{session}/{index}/{choice}",
        session_id=session,
        index=index,
        choice=choice,
        messages=(),
        reply={},
        finish_reason=finish,
        prompt_ids=tuple(prompt),
        sampled_ids=tuple(sampled),
        logprobs=tuple(-0.1 * (i + 1) for i in range(len(sampled))),
        version=version,
    )


@st.composite
def trees(draw):
    """Calls of one session, each continuing an earlier one or starting anew; tokens from a tiny alphabet."""
    tokens = st.lists(st.integers(1, 3), min_size=1, max_size=3)
    calls = []
    for index in range(draw(st.integers(1, 8))):
        start = ()
        if calls and draw(st.booleans()):
            parent = draw(st.sampled_from(calls))
            start = (*parent.prompt_ids, *parent.sampled_ids)
        prompt = (*start, *draw(tokens))
        for choice in range(draw(st.integers(1, 2))):
            calls.append(make_call(index, prompt, draw(tokens), choice=choice, version=index))
    return calls


def trained_tokens(segments):
    """Every trained token with all that is behind it, as a multiset."""
    return Counter(
        (s.ids[: place + 1], s.logprobs[place], s.versions[place])
        for s in segments
        for place, kept in enumerate(s.mask)
        if kept
    )


@settings(deadline=None)
@given(trees())
def test_every_sampled_token_is_trained_exactly_once(calls):
    segments = build_segments(calls, unchosen="train")
    expected = Counter(
        ((*c.prompt_ids, *c.sampled_ids[: place + 1]), c.logprobs[place], c.version)
        for c in calls
        for place in range(len(c.sampled_ids))
    )
    assert trained_tokens(segments) == expected
    spans = Counter(span.call_id for s in segments for span in s.spans)
    assert spans == Counter(c.call_id for c in calls)
    for s in segments:
        assert len(s.ids) == len(s.mask) == len(s.logprobs) == len(s.versions)
        assert all(
            p == 0.0 and v == 0 for p, v, m in zip(s.logprobs, s.versions, s.mask, strict=True) if not m
        )


@settings(deadline=None)
@given(trees(), st.data())
def test_splitting_into_branches_never_changes_what_is_trained(calls, data):
    """Fork invariance: cut any call off its parent and the same tokens are trained, prefix and all."""
    calls = [c for c in calls if c.choice == 0]
    merged = build_segments(calls)
    alone = [build_segments([call]) for call in data.draw(st.permutations(calls))]
    assert trained_tokens(merged) == trained_tokens([s for parts in alone for s in parts])


@settings(deadline=None)
@given(trees())
def test_counts_add_up(calls):
    counts = count_fidelity(calls)
    assert counts.sampled_tokens == sum(len(c.sampled_ids) for c in calls)
    assert counts.sampled_tokens == counts.trained_tokens + counts.unchosen_tokens + counts.aborted_tokens
    assert counts.trained_tokens == sum(sum(s.mask) for s in build_segments(calls))
    assert (counts + counts).first_calls == 2 * len(calls)


@settings(deadline=None)
@given(trees())
def test_trained_ids_are_compared_with_what_the_engine_says(calls):
    log = {c.call_id: (c.prompt_ids, c.sampled_ids) for c in calls}
    segments = build_segments(calls, unchosen="train")
    assert count_reencoded(segments, log) == 0
    check_fidelity(segments, log)
    victim = calls[-1]
    log[victim.call_id] = (victim.prompt_ids, (9, *victim.sampled_ids[1:]))
    assert count_reencoded(segments, log) > 0
    with pytest.raises(RunFailedError, match="differ from what the engine sampled"):
        check_fidelity(segments, log)


def test_a_chain_is_one_segment():
    calls = [make_call(0, [8], [1, 2]), make_call(1, [8, 1, 2, 9], [3], version=4)]
    (segment,) = build_segments(calls)
    assert segment.ids == (8, 1, 2, 9, 3) and segment.mask == (0, 1, 1, 0, 1)
    assert segment.logprobs == (0.0, -0.1, -0.2, 0.0, -0.1) and segment.versions == (0, 1, 1, 0, 4)


def test_a_fork_is_two_segments_that_share_a_prefix_trained_once():
    calls = [make_call(0, [8], [1]), make_call(1, [8, 1, 9], [2]), make_call(2, [8, 1, 7], [3])]
    first, second = build_segments(calls)
    assert first.mask == (0, 1, 0, 1) and second.mask == (0, 0, 0, 1)


def test_a_call_that_claims_a_splice_it_does_not_hold_is_counted():
    calls = [make_call(0, [8], [1, 2]), replace(make_call(1, [8, 3, 9], [4]), splice="spliced")]
    assert count_fidelity(calls).broken_calls == 1
    assert count_fidelity([calls[0], replace(calls[1], prompt_ids=(8, 1, 2, 9))]).broken_calls == 0


def test_aborted_replies_are_never_trained():
    calls = [make_call(0, [8], [1]), make_call(1, [8, 1, 9], [2], finish="abort")]
    (segment,) = build_segments(calls)
    assert segment.mask[:2] == (0, 1) and sum(segment.mask) == 1
    assert build_segments(calls[1:]) == []
    assert count_fidelity(calls).aborted_tokens == 1


def test_equal_prompts_of_two_sessions_stay_apart():
    calls = [make_call(0, [8], [1], session="a"), make_call(0, [8, 1, 9], [2], session="b")]
    assert [sum(s.mask) for s in build_segments(calls)] == [1, 1]


@pytest.mark.parametrize("field", ["prompt_ids", "sampled_ids", "logprobs"])
def test_a_call_without_token_data_is_refused_by_field(field):
    with pytest.raises(UntrainableCallError, match=r"call s/0/0 has no") as caught:
        build_segments([replace(make_call(0, [8], [1]), **{field: None})])
    assert caught.value.field == field
