"""What validate and certify sample from a model in the same way."""

from __future__ import annotations

import pytest
from environments import Sums, make_example

from castform.certify.certification import CertifyOptions
from castform.probes import ProbeReport
from castform.probing import run_probes
from castform.sampled import sample_examples
from castform.scripted_endpoint import ScriptedEndpoint
from castform.validate import ValidateOptions

EXAMPLES = [make_example(i) for i in range(3, 6)]


def pay_half(text, answer):
    return {"correct": (text.strip() == answer) / 2}


def pay_half_but_never_six(text, answer):
    return {"correct": 0.0} if answer == "6" else pay_half(text, answer)


def answer_right(request):
    return str(2 * int(request.messages[-1]["content"].split()[2]))


async def sample(environment, options, probes, name="first", groups=None):
    endpoint = ScriptedEndpoint(answer_right)
    try:
        return await sample_examples(
            environment,
            EXAMPLES,
            endpoint=endpoint,
            version=None,
            options=options,
            probes=probes,
            name=name,
            timeout_seconds=20,
            on_group=lambda group: None if groups is None else groups.append(group),
            record=None,
        )
    finally:
        await endpoint.aclose()


async def probe(environment) -> ProbeReport:
    return await run_probes(environment, EXAMPLES, split="train", weights={}, seed=0, timeout_seconds=20)


async def test_what_passes_is_what_the_right_answer_earned_among_the_probes():
    report = await probe(Sums(pay_half))
    assert (report.full_score, report.unpaid_gold) == (0.5, ())
    sampled = await sample(Sums(pay_half), ValidateOptions(samples=2), report)
    assert (sampled.pass_at, sampled.result.pass_at_k(1)) == (0.5, 1.0)
    without = await sample(Sums(pay_half), ValidateOptions(samples=2), None)
    assert (without.pass_at, without.result.pass_at_k(1)) == (1.0, 0.0)


async def test_a_right_answer_that_is_not_paid_sets_no_mark():
    report = await probe(Sums(pay_half_but_never_six))
    assert report.unpaid_gold
    assert (await sample(Sums(pay_half_but_never_six), ValidateOptions(samples=1), report)).pass_at == 1.0


@pytest.mark.parametrize("kind", [ValidateOptions, CertifyOptions])
async def test_the_options_of_both_decide_what_is_sampled(kind):
    groups = []
    options = kind(split="eval", samples=2, seed=5, weights={"correct": 3.0})
    sampled = await sample(Sums(), options, None, name="mine", groups=groups)
    assert sorted(group.group_id for group in groups) == ["mine-0", "mine-1", "mine-2"]
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    assert [(r.split, r.score) for r in rollouts] == [("eval", 3.0)] * 6
    assert [finding.code for finding in sampled.findings] == ["all_one"]
