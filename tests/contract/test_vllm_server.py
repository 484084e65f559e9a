"""What holds for a vLLM server's process, command line and replies without vLLM being installed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from castform.calls import Sampling
from castform.config import RunConfig, load_config
from castform.errors import ConfigError, MissingError, RunFailedError, UsageError
from castform_trainer.engines.vllm_adapters import AdapterVersions
from castform_trainer.engines.vllm_folder import read_end_ids
from castform_trainer.engines.vllm_options import make_command, make_environment, parse_options
from castform_trainer.engines.vllm_protocol import (
    BadReplyError,
    make_completion_request,
    parse_generation,
    parse_scores,
)
from castform_trainer.engines.vllm_server import describe_log, reserve_port, start_process
from castform_trainer.engines.vllm_start import make_vllm_engine
from castform_trainer.models import ModelFolder

WAITS = "import sys, time; held = open(sys.argv[1], 'w'); time.sleep(600)"
"""Holds a FIFO open for as long as it lives: whoever reads the FIFO sees its end."""


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "alive"
    os.mkfifo(path)
    return path


def make_config(**options: object) -> RunConfig:
    return load_config(engine__name="vllm", engine__options=options)


def make_folder(path: Path) -> ModelFolder:
    return ModelFolder(path=path, name="tiny", dtype="float32", device="cpu")


def make_fake_python(path: Path, script: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_stop_ends_the_server_and_what_it_started(tmp_path: Path, fifo: Path) -> None:
    starts_child = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {WAITS!r}, {str(fifo)!r}]).wait()"
    )
    server = start_process(
        [sys.executable, "-c", starts_child], os.environ, folder=tmp_path, log_path=tmp_path / "log"
    )
    with fifo.open() as grandchild:
        server.stop()
        assert grandchild.read() == ""
    assert not server.is_running()
    server.stop()


def test_the_server_dies_with_castform_after_kill_9(tmp_path: Path, fifo: Path) -> None:
    command = [sys.executable, "-c", WAITS, str(fifo)]
    script = (
        "import os, signal; from pathlib import Path\n"
        "from castform_trainer.engines.vllm_server import start_process\n"
        f"start_process({command!r}, os.environ, folder=Path({str(tmp_path)!r}), log_path=Path({str(tmp_path / 'log')!r}))\n"
        "print('up', flush=True); signal.pause()"
    )
    castform = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert castform.stdout is not None
    assert castform.stdout.readline() == "up\n"
    with fifo.open() as server:
        castform.kill()
        castform.wait()
        assert server.read() == ""
    castform.stdout.close()


def test_a_server_that_ends_by_itself_is_seen_and_takes_its_children_along(
    tmp_path: Path, fifo: Path
) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    leaves_child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {WAITS!r}, {str(fifo)!r}]); open({str(go)!r}).read(); sys.exit(7)"
    server = start_process(
        [sys.executable, "-c", leaves_child], os.environ, folder=tmp_path, log_path=tmp_path / "log"
    )
    with fifo.open() as child:
        go.open("w").close()  # the child is there: now the server may end
        assert child.read() == ""
    os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
    assert not server.is_running()
    assert "ended with code 7" in server.describe_end()
    server.stop()


def test_an_interpreter_without_vllm_is_named_with_what_to_do(tmp_path: Path) -> None:
    python = make_fake_python(
        tmp_path / "python", "raise SystemExit(\"ModuleNotFoundError: No module named 'vllm'\")"
    )
    with pytest.raises(RunFailedError, match="ended before it was ready") as caught:
        make_vllm_engine(make_config(python=str(python), log=str(tmp_path / "log")), make_folder(tmp_path))
    assert "No module named 'vllm'" in str(caught.value)
    assert "CASTFORM_VLLM_PYTHON" in (caught.value.hint or "")


def test_a_server_that_never_answers_is_stopped_at_the_timeout(tmp_path: Path, fifo: Path) -> None:
    python = make_fake_python(tmp_path / "python", f"import sys; sys.argv[1] = {str(fifo)!r}; {WAITS}")
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    config = make_config(python=str(python), start_timeout_seconds=0.5, log=str(tmp_path / "log"))
    with pytest.raises(RunFailedError, match=r"was not ready after 0\.5 s"):
        make_vllm_engine(config, make_folder(tmp_path))
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_a_port_in_use_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} on 127.0.0.1 is in use") as caught:
            make_vllm_engine(make_config(python=sys.executable, port=port), make_folder(tmp_path))
    assert "engine.options.port" in (caught.value.hint or "")


def test_a_reserved_port_can_be_bound_by_the_server_and_by_nobody_else() -> None:
    holder, port = reserve_port(None)
    with holder, socket.socket() as other:
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port)) as server:  # sets SO_REUSEADDR, as vLLM does
            assert server.getsockname()[1] == port


def test_joining_where_no_server_is_says_so() -> None:
    holder, port = reserve_port(None)
    with holder:
        config = load_config(engine__name="vllm", engine__url=f"http://127.0.0.1:{port}/v1")
        with pytest.raises(MissingError, match=f"no vLLM server at http://127.0.0.1:{port}"):
            make_vllm_engine(config, make_folder(Path()))


def test_wrong_options_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options({"gpu_memory": 0.5, "port": 0, "max_loras": 2})
    assert "engine.options.gpu_memory:" in str(caught.value)
    assert "engine.options.port:" in str(caught.value)
    assert "max_loras" not in str(caught.value)
    assert "gpu_memory_utilization" in (caught.value.hint or "")


def make_flags(**changes: object) -> list[str]:
    arguments: dict[str, object] = {
        "python": Path("/v/bin/python"),
        "folder": Path("/m"),
        "served_name": "base",
        "port": 1234,
        "dtype": "float32",
        "device": "cpu",
        "max_batch": 64,
        "max_context_tokens": None,
        "lora_rank": 12,
        "deterministic": False,
    }
    options = parse_options(changes.pop("options", {}))  # type: ignore[arg-type]  # a dict where given
    return make_command(options, **(arguments | changes))  # type: ignore[arg-type]  # names are checked


def test_the_command_keeps_model_defaults_out_and_asks_for_processed_logprobs() -> None:
    flags = " ".join(make_flags())
    assert "--generation-config vllm --logprobs-mode processed_logprobs" in flags
    assert "--host 127.0.0.1 --port 1234" in flags
    assert "--enable-lora --max-lora-rank 16 --max-loras 4" in flags
    assert "--enforce-eager" in flags and "--gpu-memory-utilization" not in flags


def test_a_gpu_gets_a_share_of_memory_and_compiles() -> None:
    flags = " ".join(
        make_flags(device="cuda", dtype="bfloat16", options={"gpu_memory_utilization": 0.3, "lora": False})
    )
    assert "--gpu-memory-utilization 0.3" in flags
    assert "--enforce-eager" not in flags and "--block-size" not in flags and "--enable-lora" not in flags


def test_deterministic_mode_serves_one_reply_at_a_time_without_a_prefix_cache() -> None:
    flags = " ".join(make_flags(deterministic=True))
    assert "--max-num-seqs 1 " in flags and "--no-enable-prefix-caching" in flags


def test_the_server_gets_its_key_and_threads_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    options = parse_options({"kv_cache_gib": 3, "environment": {"OMP_NUM_THREADS": "9", "EXTRA": "x"}})
    made = make_environment(options, api_key="secret", device="cpu", threads=2)
    assert made["VLLM_API_KEY"] == "secret" and made["VLLM_CPU_KVCACHE_SPACE"] == "3"
    assert made["OMP_NUM_THREADS"] == "9" and made["EXTRA"] == "x"
    assert "PYTHONPATH" not in made
    assert "secret" not in " ".join(make_flags())


def test_the_server_gets_the_gpu_that_the_run_names(monkeypatch: pytest.MonkeyPatch) -> None:
    options = parse_options({})
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    made = make_environment(options, api_key="k", device="cuda:1", threads=None)
    assert made["CUDA_VISIBLE_DEVICES"] == "1" and "OMP_NUM_THREADS" not in made.keys() - os.environ.keys()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    made = make_environment(options, api_key="k", device="cuda:1", threads=None)
    assert made["CUDA_VISIBLE_DEVICES"] == "6"


def make_reply(**changes: object) -> dict[str, object]:
    choice = {
        "index": 0,
        "prompt_token_ids": [5, 6],
        "token_ids": [7, 2],
        "logprobs": {"token_logprobs": [-0.5, -0.25]},
        "finish_reason": "stop",
    }
    return {"choices": [choice | changes]}


def test_a_whole_reply_becomes_a_generation() -> None:
    found = parse_generation(make_reply(), [5, 6], 3)
    assert (found.ids, found.logprobs, found.finish_reason, found.version) == (
        (7, 2),
        (-0.5, -0.25),
        "stop",
        3,
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt_token_ids": [5, 9]},
        {"token_ids": None},
        {"logprobs": None},
        {"logprobs": {"token_logprobs": [-0.5]}},
        {"logprobs": {"token_logprobs": [-0.5, None]}},
        {"logprobs": {"token_logprobs": [-0.5, -9999.0]}},
        {"finish_reason": "repetition"},
    ],
)
def test_a_reply_that_training_cannot_trust_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(BadReplyError):
        parse_generation(make_reply(**changes), [5, 6], 0)


def test_scores_come_in_the_order_of_the_prompts_and_a_missing_one_is_refused() -> None:
    choices = [
        {"index": i, "logprobs": {"top_logprobs": [{"token_id:4": -1.0 - i, "token_id:8": -2.0 - i}]}}
        for i in (1, 0)
    ]
    assert parse_scores({"choices": choices}, 2, [8, 4]) == [[-2.0, -1.0], [-3.0, -2.0]]
    with pytest.raises(BadReplyError, match="token_id:5"):
        parse_scores({"choices": choices}, 2, [5])


def test_every_sampling_key_is_sent() -> None:
    body = make_completion_request(
        "m", [1], Sampling(seed=2**63 + 5, stop=("x",)), max_new_tokens=4, stop_token_ids=[9, 2, 9]
    )
    asked = {"temperature", "top_p", "top_k", "min_p", "seed", "max_tokens", "min_tokens"}
    asked |= {"presence_penalty", "frequency_penalty", "repetition_penalty"}
    assert asked <= body.keys()
    assert (body["seed"], body["stop_token_ids"], body["ignore_eos"]) == (5, [2, 9], True)


def test_a_temperature_that_vllm_would_change_is_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.005"):
        make_completion_request("m", [1], Sampling(temperature=0.005), max_new_tokens=1, stop_token_ids=[])


def test_an_adapter_copy_stays_until_its_last_reply(tmp_path: Path) -> None:
    source = tmp_path / "adapter"
    source.mkdir()
    (source / "adapter_config.json").write_text("{}")
    (source / "adapter_model.safetensors").write_bytes(b"\x02" + bytes(7) + b"{}weights")
    versions = AdapterVersions(tmp_path / "copies", "base")
    copy = versions.copy_in(source, 1)
    versions.add(1)
    with versions.use(None) as used:
        assert used == 1 and versions.remove(1)
        assert copy.is_dir()
        with pytest.raises(KeyError):
            versions.use(1).__enter__()
    assert not copy.exists()
    with pytest.raises(ValueError, match="not larger than 1"):
        versions.copy_in(source, 1)
    other = AdapterVersions(tmp_path / "copies", "base")
    assert other.name_of(1) != versions.name_of(1) and other.name_of(0) == "base"


def test_the_adapter_of_zeros_has_the_shapes_and_nothing_else(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    source = tmp_path / "adapter"
    source.mkdir()
    (source / "adapter_config.json").write_text('{"r": 2}')
    save_file({"a": torch.ones(2, 3), "b": torch.ones(4, 2)}, source / "adapter_model.safetensors")
    versions = AdapterVersions(tmp_path / "copies", "base")
    made = versions.make_zeros(source)
    assert made is not None and versions.name_of(0) == "base"
    versions.add(0)
    name, folder = made
    assert versions.name_of(0) == name and versions.make_zeros(source) is None
    zeros = load_file(folder / "adapter_model.safetensors")
    assert {key: (tuple(t.shape), t.abs().sum().item()) for key, t in zeros.items()} == {
        "a": ((2, 3), 0.0),
        "b": ((4, 2), 0.0),
    }
    assert (folder / "adapter_config.json").read_text() == '{"r": 2}'


def test_the_first_cause_in_a_log_comes_before_its_echoes(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "ERROR ValueError: Head size 16 is not supported\n" + "noise\n" * 40 + "RuntimeError: Engine core "
        "initialization failed. See root cause above. Failed core proc(s): {}\n"
    )
    lines = describe_log(log).splitlines()
    assert lines[0].strip() == "ValueError: Head size 16 is not supported"
    assert len(lines) < 20


def test_end_ids_are_those_of_the_generation_config_and_the_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"eos_token_id": 5}')
    assert read_end_ids(tmp_path) == (5,)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [7, 8]}')
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": {"content": "<end>"}}')
    (tmp_path / "tokenizer.json").write_text('{"added_tokens": [{"id": 9, "content": "<end>"}]}')
    assert read_end_ids(tmp_path) == (7, 8, 9)
    (tmp_path / "generation_config.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(UsageError, match="no end-of-turn token"):
        read_end_ids(tmp_path)
