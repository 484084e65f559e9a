"""Each plugin trains the real small model for two steps: its rollouts are scored and the adapter is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from castform.home import castform_home

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIGS = sorted(path.stem for path in EXAMPLES.glob("*.toml") if path.stem != "arith")
"""arith has a longer run of its own in test_train_real.py."""
SHORT = {
    "run.steps": 2,
    "rl.groups_per_step": 3,
    "rl.group_size": 4,
    "rl.max_refills": 1,
    "eval.examples": 4,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    models = castform_home() / "models"
    if not (models / "smollm2-135m").exists():
        pytest.skip("no weights: castform model pull smollm2-135m")
    home = tmp_path_factory.mktemp("home")
    (home / "models").symlink_to(models)
    return home


@pytest.mark.parametrize("name", CONFIGS)
def test_an_example_config_trains_the_small_model(name: str, home: Path) -> None:
    settings = [word for key, value in SHORT.items() for word in ("--set", f"{key}={value}")]
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "castform",
            "train",
            "--config",
            str(EXAMPLES / f"{name}.toml"),
            "--json",
            *settings,
        ],
        env={**os.environ, "CASTFORM_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    run_dir = Path(result["run_dir"])
    assert (run_dir / "adapter" / "adapter_model.safetensors").stat().st_size > 0
    components = {row["name"] for row in result["verdict"]["components"]}
    assert components, "the held-out rollouts have no reward components"
