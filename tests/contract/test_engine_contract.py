"""Every engine against the same checks; `castform_trainer.engines.conformance` holds them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from castform_trainer.engines.conformance import (
    CHECKS,
    MODEL_CHECKS,
    Check,
    EngineCase,
    check_closing_aborts,
)
from castform_trainer.engines.fake import FakeEngine
from castform_trainer.engines.transformers import TransformersEngine
from castform_trainer.models import ModelFolder, load_tokenizer
from castform_trainer.testing import make_tiny_adapter, make_tiny_model

MERGES = [("t", "h"), ("th", "e"), ("a", "n")]


@dataclass(frozen=True, slots=True)
class TinyModel:
    folder: Path
    adapters: tuple[Path, Path]


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], TinyModel]:
    torch.set_num_threads(1)
    made: dict[str, TinyModel] = {}

    def make(kind: str) -> TinyModel:
        if kind not in made:
            root = tmp_path_factory.mktemp(kind)
            folder = make_tiny_model(root / "model", kind, merges=MERGES, max_positions=256)  # type: ignore[arg-type]  # parametrised
            adapters = [make_tiny_adapter(folder, root / f"adapter-{i}", seed=i) for i in (1, 2)]
            made[kind] = TinyModel(folder, (adapters[0], adapters[1]))
        return made[kind]

    return make


def make_transformers_case(model: TinyModel, *, deterministic: bool = False) -> EngineCase:
    folder = ModelFolder(path=model.folder, name="tiny", dtype="float32", device="cpu")
    tokenizer = load_tokenizer(folder)
    return EngineCase(
        engine=TransformersEngine(folder, max_batch=4, threads=1, deterministic=deterministic),
        vocabulary=len(tokenizer),
        decode=lambda ids: tokenizer.decode(list(ids), skip_special_tokens=False),
        adapter_folders=model.adapters,
        model_folder=model.folder,
    )


def make_fake_case(model: TinyModel) -> EngineCase:
    def decode(ids: object) -> str:
        return "".join(chr(40 + i) for i in ids)  # type: ignore[attr-defined]  # a sequence of ids

    engine = FakeEngine(vocabulary=64, decode=decode, max_context_tokens=256)
    return EngineCase(engine=engine, vocabulary=64, decode=decode, adapter_folders=model.adapters)


KINDS = ("llama", "qwen3", "mistral", "gemma3", "llama-deterministic", "fake")


@pytest.fixture(params=KINDS)
async def case(
    request: pytest.FixtureRequest, tiny_model: Callable[[str], TinyModel]
) -> AsyncIterator[EngineCase]:
    kind = str(request.param)
    if kind == "fake":
        made = make_fake_case(tiny_model("llama"))
    else:
        made = make_transformers_case(
            tiny_model(kind.removesuffix("-deterministic")), deterministic=kind.endswith("deterministic")
        )
    yield made
    await made.engine.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
async def test_engine_keeps_the_contract(check: Check, case: EngineCase) -> None:
    await check(case)


@pytest.mark.parametrize("check", MODEL_CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
async def test_engine_samples_from_the_model_itself(check: Check, case: EngineCase) -> None:
    if case.model_folder is None:
        pytest.skip("no model behind a fake")
    await check(case)


async def test_closing_aborts_what_waits(case: EngineCase) -> None:
    await check_closing_aborts(case)
