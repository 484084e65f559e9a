"""Small projects written for the public benchmax API, as their authors would: they run unchanged.

Nothing here is ours but the import name: servers are the standard library's, judges are
stubs that answer in the forms that existing projects answer in.
"""

from __future__ import annotations

import importlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchmax.auth import ModelRequestContext, create_openai_client
from benchmax.bundle import Bundle, bundle_digest, dump_bundle, load_bundle
from benchmax.envs import (
    BaseEnv,
    BaseRollout,
    Dataset,
    DatasetSplit,
    Environment,
    Example,
    InjectedAuth,
    JsonlDataset,
    RolloutAttempt,
    RolloutFailure,
    RolloutOutcome,
    RolloutRequest,
    StaticBearerAuth,
    bind_model_auth,
    canonical_example_id,
)
from benchmax.envs.environment import settle_termination_reason
from benchmax.rewards import (
    ClusterResult,
    Judge,
    JudgeError,
    LLMDiversityConfig,
    NgramDiversityConfig,
    RankingAnchor,
    Rubric,
    RubricCache,
    RubricRanking,
    citation_score,
    cluster_texts,
    evaluate_rubric_ranking,
    evaluate_single_rubric,
    extract_completion_text,
    generate_adaptive_rubrics,
    rank_group_rubrics,
    scale_by_diversity,
    score_group_rubrics,
    score_rubrics,
    tool_call_efficiency,
)
from benchmax.rewards.prompts import (
    build_adaptive_rubric_prompt,
    build_diversity_prompt,
    build_rubric_evaluation_prompt,
    build_rubric_ranking_prompt,
)

CLEAR = Rubric("Clear", "Easy to follow.")
KIND = Rubric("Kind", "Says something unkind.", polarity="negative")
LETTERS = Rubric("Letters", "How many.", score_map={-1: "none", 1: "some", 3: "many"})

Answer = Callable[[dict[str, Any]], Any]


@contextmanager
def served(answer: Answer) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A model, or a judge, behind HTTP: `answer` returns a text, or a message with its finish reason."""
    bodies: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            bodies.append({**body, "authorization": self.headers["authorization"]})
            said = answer(body)
            message = {"content": said} if isinstance(said, str) else dict(said)
            finish = message.pop("finish_reason", "stop")
            choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
            reply = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", bodies
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def judge_at(base_url: str) -> Judge:
    return Judge("judge", base_url, StaticBearerAuth("judge-key"), 10.0, 0, 1)


async def attempt(
    env: Environment[Any, Any], example: Example[Any], base_url: str, *, count: int = 1
) -> Mapping[str, RolloutOutcome]:
    return await env.run_group(
        [RolloutRequest(f"r{i}", example, "m", base_url, StaticBearerAuth(f"key-{i}")) for i in range(count)]
    )


# --- a quiz from a JSONL file -----------------------------------------------------------------


class Quiz(BaseEnv):
    max_turns = 1

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Any:
        return JsonlDataset(
            base_dir / f"{split}.jsonl", row_to_example=self._example, max_examples=max_examples
        )

    def _example(self, row: dict[str, Any]) -> Example[Any]:
        payload = {
            "prompt_messages": [{"role": "user", "content": row["prompt"]}],
            "ground_truth": row["ground_truth"],
        }
        return Example(id=canonical_example_id(payload), payload=payload)

    async def compute_reward(self, rollout: BaseRollout) -> dict[str, float]:
        text = extract_completion_text(rollout.messages)
        match = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
        answer = match.group(1).strip().lower() if match else ""
        expected = str(rollout.example_args.get("ground_truth", "")).strip().lower()
        return {"correct": 1.0 if answer == expected else 0.0}


async def test_a_quiz_reads_its_rows_and_pays_the_right_answer(tmp_path: Path) -> None:
    rows = [{"prompt": "capital of France?", "ground_truth": "Paris"}, {"prompt": "2+2?", "ground_truth": 4}]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    env = Quiz()
    examples = list(await env.create_dataset("train", tmp_path, max_examples=1))
    assert [example.payload["ground_truth"] for example in examples] == ["Paris"]
    with served(lambda body: "It is <answer> paris </answer>.") as (base_url, bodies):
        outcomes = await attempt(env, examples[0], base_url, count=2)
        await env.aclose()
    assert outcomes == {f"r{i}": RolloutOutcome({"correct": 1.0}, "finished") for i in (0, 1)}
    assert sorted(body.pop("authorization") for body in bodies) == ["Bearer key-0", "Bearer key-1"]
    assert bodies == [{"model": "m", "messages": [{"role": "user", "content": "capital of France?"}]}] * 2


# --- a tool, citations and call efficiency ----------------------------------------------------


class Library(BaseEnv):
    def __init__(self, pages: dict[str, str]) -> None:
        super().__init__(max_turns=3, max_tool_calls=4)
        self.pages = pages
        self.opened: list[tuple[str, str]] = []

    async def create_dataset(self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None):
        return Dataset([])

    async def list_tools(self) -> list[dict[str, Any]]:
        page = {"type": "object", "properties": {"page": {"type": "string"}}, "required": ["page"]}
        return [
            {"type": "function", "function": {"name": "read", "description": "Read.", "parameters": page}}
        ]

    async def run_tool(self, rollout_id: str, tool_name: str, **tool_args: Any) -> Any:
        self.opened.append((rollout_id, tool_args["page"]))
        if tool_args["page"] == "burnt":
            raise RolloutFailure("sandbox_error", "the library is closed")
        return {"text": self.pages[tool_args["page"]]}

    async def compute_reward(self, rollout: BaseRollout) -> dict[str, float]:
        chunks = [{"content": text, "metadata": {"file": name}} for name, text in self.pages.items()]
        cited = citation_score(rollout.messages, chunks, source_field=("source_id", "file"))
        return {**cited, "brief": tool_call_efficiency(rollout.messages, reference_chunk_count=1)}


def reads(page: str) -> Answer:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": f'{{"page":"{page}"}}'}}

    def answer(body: dict[str, Any]) -> Any:
        if body["messages"][-1]["role"] == "tool":
            return "Tea is hot. [Source: tea]"
        return {"content": None, "tool_calls": [call], "finish_reason": "tool_calls"}

    return answer


async def test_a_tool_is_run_and_its_sources_are_scored() -> None:
    env = Library({"tea": "Tea is hot.", "ice": "Ice is cold."})
    example = Example("e", {"prompt_messages": [{"role": "user", "content": "Is tea hot?"}]})
    with served(reads("tea")) as (base_url, bodies):
        outcomes = await attempt(env, example, base_url)
        await env.aclose()
    assert outcomes["r0"] == RolloutOutcome({"precision": 1.0, "recall": 0.5, "brief": 1.0}, "finished")
    assert env.opened == [("r0", "tea")]
    assert bodies[1]["messages"][2] == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": '{"text":"Tea is hot."}',
    }
    assert [tool["function"]["name"] for tool in bodies[0]["tools"]] == ["read"]


async def test_a_tool_that_fails_ends_the_rollout_with_its_reason() -> None:
    env = Library({})
    with served(reads("burnt")) as (base_url, _):
        outcomes = await attempt(
            env, Example("e", {"prompt_messages": [{"role": "user", "content": "?"}]}), base_url
        )
        await env.aclose()
    assert (dict(outcomes["r0"].rewards), outcomes["r0"].termination_reason) == ({}, "sandbox_error")


# --- essays before a judge --------------------------------------------------------------------


class Essays(BaseEnv):
    """Each essay by rubrics, the group by a ranking, copies of one essay shared."""

    max_turns = 1

    def __init__(self, judge_base_url: str) -> None:
        super().__init__()
        self.judge = Judge(
            model="judge", base_url=judge_base_url, auth=InjectedAuth("judge"), timeout=None, max_retries=0
        )

    async def create_dataset(self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None):
        return Dataset([])

    async def compute_reward(self, rollout: BaseRollout) -> dict[str, float]:
        return await score_rubrics(
            rollout.rollout_id,
            rollout.messages,
            ground_truth=rollout.example_args["ground_truth"],
            rubrics=[CLEAR],
            question="Write.",
            judge=self.judge,
        )

    async def compute_group_rewards(self, rollouts: Sequence[BaseRollout]) -> dict[str, dict[str, float]]:
        ids = [rollout.rollout_id for rollout in rollouts]
        texts = [extract_completion_text(rollout.messages) for rollout in rollouts]
        ranked = await rank_group_rubrics(
            ids, texts, ground_truth=None, question="Write.", judge=self.judge, rubrics=[KIND]
        )
        shared, clusters = await scale_by_diversity(ranked, texts, NgramDiversityConfig())
        assert clusters.n_clusters == 2
        return dict(zip(ids, shared, strict=True))


def plain_judge(body: dict[str, Any]) -> str:
    prompt = body["messages"][-1]["content"]
    if '"ranking"' in prompt:
        return '{"ranking": [[1], [0]], "reasoning": "kinder"}'
    return '```json\n{"score": 1, "reasoning": "x"}\n```'


async def test_essays_are_judged_alone_and_as_a_group() -> None:
    def by_turn(texts: list[str]) -> Answer:
        return lambda body: texts.pop()

    with (
        served(by_turn(["An essay about rain.", "Snow falls in winter."])) as (base_url, _),
        served(plain_judge) as (judge_url, asked),
        bind_model_auth({"judge": StaticBearerAuth("judge-key")}),
    ):
        env = Essays(judge_url)
        payload = {
            "prompt_messages": [{"role": "user", "content": "Write."}],
            "ground_truth": ["rain", "snow"],
        }
        outcomes = await attempt(env, Example("e", payload), base_url, count=2)
        await env.aclose()
    assert outcomes == {
        "r0": RolloutOutcome({"rubric_clear": 1.0, "rubric_kind": 0.0}, "finished"),
        "r1": RolloutOutcome({"rubric_clear": 1.0, "rubric_kind": 1.0}, "finished"),
    }
    assert {body["authorization"] for body in asked} == {"Bearer judge-key"}
    assert len(asked) == 3 and "['rain', 'snow']" in asked[0]["messages"][-1]["content"]


async def test_group_rewards_come_in_the_order_of_the_ids() -> None:
    with served(lambda body: '{"score": 1, "reasoning": "x"}') as (base_url, _):
        common: dict[str, Any] = {"question": "q", "judge": judge_at(base_url)}
        assert await score_group_rubrics(
            ["a", "b"], ["text", ""], ground_truth=42, rubrics=[CLEAR, KIND], **common
        ) == [{"rubric_clear": 1.0, "rubric_kind": 0.0}, {"rubric_clear": 0.0, "rubric_kind": 0.0}]
        # a stub that knows scores only proposes no rubrics
        assert await score_group_rubrics(
            ["a", "b"], ["x", "y"], ground_truth="g", use_adaptive=True, cache=RubricCache(), **common
        ) == [{"rubric_adaptive": 0.0}, {"rubric_adaptive": 0.0}]
        with pytest.raises(ValueError):
            await score_group_rubrics([], [], ground_truth="g", rubrics=[CLEAR], **common)


@pytest.mark.parametrize(
    ("reply", "positive", "negative"),
    [
        ({}, [], []),
        ({"positive_rubrics": [{"title": "A", "description": "a"}]}, ["A"], []),
        (
            {
                "question": "q",
                "positive_rubrics": [],
                "negative_rubrics": [{"description": "b", "title": "清楚"}],
            },
            [],
            ["清楚"],
        ),
    ],
)
async def test_proposed_rubrics_are_read_with_either_list_left_out(
    reply: dict[str, Any], positive: list[str], negative: list[str]
) -> None:
    with served(lambda body: json.dumps(reply)) as (base_url, _):
        found = await generate_adaptive_rubrics(
            question="q", ground_truth="g", responses=["x", "y"], judge=judge_at(base_url)
        )
    assert [rubric.title for rubric in found.positive] == positive
    assert [rubric.title for rubric in found.negative] == negative


async def test_a_title_in_any_script_can_be_adaptive() -> None:
    def answer(body: dict[str, Any]) -> str:
        prompt = body["messages"][-1]["content"]
        if "positive_rubrics" in prompt:
            return json.dumps({"positive_rubrics": [{"title": "清楚", "description": "d"}]})
        return json.dumps({"score": int("rain" in prompt)})

    with served(answer) as (base_url, _):
        rewards = await score_group_rubrics(
            ["a", "b"],
            ["rain", "snow"],
            ground_truth="",
            question="q",
            judge=judge_at(base_url),
            use_adaptive=True,
        )
    assert rewards == [{"rubric_adaptive": 1.0}, {"rubric_adaptive": 0.0}]


async def test_a_judge_assigns_texts_to_clusters_of_its_own_naming() -> None:
    assignments = [
        {"index": 1, "cluster_id": "b", "label": "two"},
        {"index": 0, "cluster_id": "a", "label": "one"},
        {"index": 2, "cluster_id": "a"},
    ]
    with served(lambda body: json.dumps({"assignments": assignments})) as (base_url, asked):
        config = LLMDiversityConfig(judge_at(base_url))
        clusters = await cluster_texts(["x", "y", "z"], config, context="q")
        scaled, again = await scale_by_diversity([{"r": 1.0}] * 3, ["x", "y", "z"], config)
    assert (clusters.cluster_ids, clusters.divisors) == (("a", "b", "a"), (2.0, 1.0, 2.0))
    assert (clusters.labels, clusters.n_clusters) == (("one", "two", ""), 2)
    assert scaled == [{"r": 0.5}, {"r": 1.0}, {"r": 0.5}] and again.cluster_ids == clusters.cluster_ids
    assert asked[0]["max_tokens"] == 512 and '"assignments"' in asked[0]["messages"][-1]["content"]
    with served(lambda body: json.dumps({"assignments": assignments[:2]})) as (base_url, _):
        with pytest.raises(JudgeError):
            await cluster_texts(["x", "y", "z"], LLMDiversityConfig(judge_at(base_url)))


async def test_letters_alone_make_clusters_with_numbers_for_names() -> None:
    clusters = await cluster_texts(["abc def", "abc def", "xyz"], NgramDiversityConfig())
    assert clusters == ClusterResult(("0", "0", "1"), (2.0, 2.0, 1.0), (), None)


# --- judges of one's own ----------------------------------------------------------------------


class CannedJudge:
    """A double that is no Judge at all."""

    def __init__(self, verdict: Any) -> None:
        self.verdict = verdict
        self.asked: list[str] = []

    async def request_json(self, prompt: str, *, request_id: str, **sampling: Any) -> tuple[Any, str]:
        self.asked.append(prompt)
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict, json.dumps(self.verdict)


class CountingJudge(Judge):
    async def request_json(self, prompt: str, **settings: Any) -> tuple[dict[str, Any], str]:
        COUNTED.append(settings["request_id"])
        return await super().request_json(prompt, **settings)


COUNTED: list[str] = []


async def test_a_double_without_a_network_judges() -> None:
    judge: Any = CannedJudge({"score": 3, "reasoning": "many"})
    found = await evaluate_single_rubric(LETTERS, question="q", response="abc", judge=judge)
    assert (found.score, found.reasoning) == (3.0, "many") and json.loads(found.raw_response)["score"] == 3
    assert len(judge.asked) == 1 and "abc" in judge.asked[0]
    judge = CannedJudge({"ranking": [[1, 2], [0]]})
    anchors = [RankingAnchor("so so", 0.5, "bar")]
    ranked = await evaluate_rubric_ranking(
        CLEAR, question="q", responses=["a", "b"], judge=judge, anchors=anchors
    )
    assert ranked == RubricRanking((0.0, 0.5), ((1, 2), (0,)), "", '{"ranking": [[1, 2], [0]]}')
    judge = CannedJudge({"assignments": [{"index": i, "cluster_id": "a"} for i in (0, 1)]})
    assert (await cluster_texts(["a", "b"], LLMDiversityConfig(judge))).divisors == (2.0, 2.0)


@pytest.mark.parametrize(
    "verdict",
    [{"score": 0.5}, {"grade": 1}, {"score": True}, RuntimeError("down"), JudgeError("down")],
    ids=["between", "unscored", "bool", "error", "judge error"],
)
async def test_a_double_that_gives_no_verdict_is_a_judge_error(verdict: Any) -> None:
    judge: Any = CannedJudge(verdict)
    with pytest.raises(JudgeError) as caught:
        await evaluate_single_rubric(CLEAR, question="q", response="a", judge=judge)
    assert caught.value.termination_reason == "judge_error"
    assert len(judge.asked) == 1


async def test_a_subclass_sees_every_request() -> None:
    COUNTED.clear()
    with served(plain_judge) as (base_url, asked):
        judge = CountingJudge("judge", base_url, StaticBearerAuth("k"), max_retries=0)
        found = await evaluate_single_rubric(CLEAR, question="q", response="a", judge=judge)
    assert (found.score, len(COUNTED), len(asked)) == (1.0, 1, 1)


async def test_a_patched_judge_is_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    async def request_json(self: Judge, prompt: str, *, request_id: str) -> tuple[dict[str, Any], str]:
        return {"score": 0}, "patched"

    monkeypatch.setattr(Judge, "request_json", request_json)
    judge = Judge("judge", "http://127.0.0.1:1/v1", StaticBearerAuth("k"))
    assert (
        await evaluate_single_rubric(KIND, question="q", response="a", judge=judge)
    ).raw_response == "patched"
    assert await score_rubrics("r", "a", ground_truth="", rubrics=[KIND], question="q", judge=judge) == {
        "rubric_kind": 1.0
    }


async def test_blank_ground_truths_are_none_and_others_are_shown_as_text() -> None:
    for truth, shown in ((" ", False), (None, False), (4711, True)):
        judge: Any = CannedJudge({"score": 1})
        await score_rubrics("r", "a", ground_truth=truth, rubrics=[CLEAR], question="q", judge=judge)
        assert ("4711" in judge.asked[0]) is shown
        judge = CannedJudge({"ranking": [[0, 1, 2]] if shown else [[0, 1]]})
        ranked = await rank_group_rubrics(
            ["a", "b"], ["x", "y"], ground_truth=truth, question="q", judge=judge, rubrics=[CLEAR]
        )
        assert ranked == [{"rubric_clear": 0.5}] * 2


async def test_prompts_can_be_built_without_asking() -> None:
    judge: Any = CannedJudge({"score": 1})
    await evaluate_single_rubric(CLEAR, question="q", response="a", judge=judge, ground_truth="g")
    assert judge.asked == [
        build_rubric_evaluation_prompt(CLEAR, question="q", response="a", ground_truth="g")
    ]
    judge = CannedJudge({"ranking": [[0, 1, 2]]})
    await evaluate_rubric_ranking(
        CLEAR, question="q", responses=["a", "b"], judge=judge, ground_truth="g", log_result=False
    )
    assert judge.asked == [build_rubric_ranking_prompt(CLEAR, question="q", responses=["a", "b", "g"])]
    judge = CannedJudge({})
    asked: dict[str, Any] = {"question": "q", "ground_truth": "g", "responses": ["a", "b"]}
    await generate_adaptive_rubrics(**asked, judge=judge)
    await generate_adaptive_rubrics(**asked, judge=judge, existing_rubrics=[CLEAR])
    assert judge.asked == [
        build_adaptive_rubric_prompt(**asked),
        build_adaptive_rubric_prompt(**asked, existing_rubrics=[CLEAR]),
    ]
    judge = CannedJudge({"assignments": [{"index": i, "cluster_id": "a"} for i in (0, 1)]})
    await cluster_texts(["a", "b"], LLMDiversityConfig(judge), context="q")
    await cluster_texts(["a", "b"], LLMDiversityConfig(judge, instructions="By tone."))
    assert judge.asked == [
        build_diversity_prompt(["a", "b"], context="q"),
        build_diversity_prompt(["a", "b"], instructions="By tone."),
    ]


# --- an agent of one's own, bundled -----------------------------------------------------------


class Agent(Environment[Any, RolloutAttempt]):
    def __init__(self, bonus: float = 0.0) -> None:
        self.bonus = bonus

    async def create_dataset(self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None):
        return Dataset([Example("e", {"task": split})])

    async def run_rollout(self, request: RolloutRequest[Any]) -> RolloutAttempt:
        if request.rollout_id == "r1":
            raise RolloutFailure("harness_timeout", "too slow")
        return RolloutAttempt(rollout_id=request.rollout_id, termination_reason="finished")

    async def compute_group_rewards(
        self, rollouts: Sequence[RolloutAttempt]
    ) -> Mapping[str, Mapping[str, float]]:
        return {rollout.rollout_id: {"done": 1.0 + self.bonus} for rollout in rollouts}


async def test_an_agent_travels_in_a_bundle_and_runs() -> None:
    bundle = dump_bundle(Agent, constructor_args={"bonus": 0.5}, pip_dependencies=["Requests >= 2"])
    assert bundle.metadata.pip_dependencies == ("requests>=2",)
    assert len(bundle_digest(Bundle(bundle.pickled, bundle.metadata))) == 64
    env = load_bundle(bundle)
    assert isinstance(env, Environment)
    assert load_bundle(bundle, instantiate=False)[1] == {"bonus": 0.5}  # type: ignore[index]
    outcomes = await attempt(env, Example("e", {"task": "train"}), "http://127.0.0.1:1/v1", count=3)
    assert outcomes == {
        "r0": RolloutOutcome({"done": 1.5}, "finished"),
        "r1": RolloutOutcome({}, "harness_timeout", "too slow"),
        "r2": RolloutOutcome({"done": 1.5}, "finished"),
    }
    assert list(outcomes) == ["r0", "r1", "r2"]


# --- names and forms of calls -----------------------------------------------------------------

NAMES = {
    "benchmax.auth": "InjectedAuth ModelAuth ModelRequestContext RequestModelAuth StaticBearerAuth "
    "bind_model_auth create_async_openai_client create_openai_client",
    "benchmax.bundle": "Bundle BundleMetadata BundlingError IncompatibleBenchmaxError "
    "IncompatiblePythonError IncompatibleRuntimeError bundle_digest dump_bundle load_bundle "
    "unregistered_local_refs validate_bundle_compatibility",
    "benchmax.envs.base": "BaseEnv BaseRollout JsonRow JsonlDataset Message Messages Tool resolve_dataset_path",
    "benchmax.envs.base.dataset": "JsonRow JsonlDataset resolve_dataset_path",
    "benchmax.envs.base.env": "BaseEnv BaseRollout",
    "benchmax.envs.dataset": "Dataset",
    "benchmax.envs.environment": "Environment settle_termination_reason",
    "benchmax.envs.identity": "canonical_example_id",
    "benchmax.envs.logging": "group_context rollout_context",
    "benchmax.envs.shared_types": "DatasetSplit Example RewardMap RolloutAttempt RolloutFailure "
    "RolloutOutcome RolloutRequest ValidationDiagnostic",
    "benchmax.rewards": "DiversityConfig RubricPolarity",
    "benchmax.rewards.adaptive": "AdaptiveRubrics RubricCache generate_adaptive_rubrics "
    "generate_and_cache_adaptive_rubrics prompt_key",
    "benchmax.rewards.deterministic": "Completion citation_score clip01 count_search_calls "
    "extract_answer_block extract_completion_text overlap_reward percent_of_text_a_in_text_b "
    "search_within_budget tool_call_efficiency",
    "benchmax.rewards.diversity": "ClusterResult DEFAULT_DIVERSITY_INSTRUCTIONS DiversityConfig "
    "LLMDiversityConfig NgramDiversityConfig cluster_texts scale_by_diversity",
    "benchmax.rewards.judge": "Judge JudgeError",
    "benchmax.rewards.rubric": "RankingAnchor Rubric RubricEvaluation RubricPolarity RubricRanking "
    "evaluate_rubric_ranking evaluate_single_rubric",
    "benchmax.rewards.scoring": "rank_group_rubrics rubric_reward_key score_group_rubrics score_rubrics",
}


@pytest.mark.parametrize("reward", ["1", True, None, float("nan")])
def test_a_reward_that_is_no_number_is_a_value_error(reward: Any) -> None:
    with pytest.raises(ValueError):
        RolloutAttempt(rollout_id="r", termination_reason="finished", rewards={"a": reward})


@pytest.mark.parametrize("module", NAMES)
def test_names_are_where_projects_import_them_from(module: str) -> None:
    found = importlib.import_module(module)
    assert [name for name in NAMES[module].split() if not hasattr(found, name)] == []
    with pytest.raises(AttributeError):
        found.no_such_name


def test_arguments_have_their_public_names() -> None:
    assert LETTERS.reward_for(raw_score=1) == 0.5
    assert settle_termination_reason(attempt_reason="finished", failure_reason="judge_error") == "judge_error"
    assert settle_termination_reason("output_exceeded", "judge_error") == "output_exceeded"
    assert RubricCache(max_per_polarity=1).consider(prompt="p", rubric=CLEAR, scores=[0, 1])
    with bind_model_auth(providers={"m": StaticBearerAuth("t")}):
        client = create_openai_client(
            model="m", base_url="http://h/v1", auth=InjectedAuth("m"), request_id="r", max_retries=0
        )
        client.close()
    assert ModelRequestContext("u", "m", "r").rollout_id == "r"
