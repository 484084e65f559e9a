"""Who may import whom. Every import statement counts, wherever it stands in a file."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("benchmax", "castform", "castform_harbor", "castform_trainer")
HEAVY = ("torch", "transformers", "peft", "safetensors", "tokenizers", "gguf", "vllm", "accelerate")
LAYERS = {
    "core/benchmax": {"benchmax"},
    "core/castform": {"benchmax", "castform"},
    "harbor_adapters/castform_harbor": {"benchmax", "castform", "castform_harbor"},
    "trainer/castform_trainer": {"benchmax", "castform", "castform_trainer"},
}
PLUGINS = sorted(p.parent.name for p in (ROOT / "plugins").glob("*/pyproject.toml"))


def imports_of(path: Path) -> list[tuple[int, str]]:
    """Return (line, module) of every import; `from a import b` counts as `a.b`."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively; name the module"
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


def files_below(folder: Path) -> list[Path]:
    files = [p for p in folder.rglob("*.py") if "__pycache__" not in p.parts]
    assert files, f"{folder} has no Python files"
    return files


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_what_lies_below_it(layer):
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in files_below(ROOT / layer)
        for line, module in imports_of(path)
        if module.partition(".")[0] in OURS and module.partition(".")[0] not in LAYERS[layer]
    ]
    assert wrong == []


@pytest.mark.parametrize("layer", [layer for layer in LAYERS if layer != "trainer/castform_trainer"])
def test_only_the_trainer_imports_torch_and_its_kin(layer):
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for path in files_below(ROOT / layer)
        for line, module in imports_of(path)
        if module.partition(".")[0] in HEAVY
    ]
    assert wrong == []


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_plugin_imports_the_public_seams_only(plugin):
    folder = ROOT / "plugins" / plugin
    wrong = []
    for path in files_below(folder):
        allowed = ["benchmax", "castform.plugins", "castform.sandbox", "castform.harness"]
        if "tests" in path.relative_to(folder).parts:
            allowed.append("castform.testing")
        for line, module in imports_of(path):
            if module.partition(".")[0] not in OURS:
                continue
            if not any(f"{module}.".startswith(f"{name}.") for name in allowed):
                wrong.append(f"{path.relative_to(ROOT)}:{line} imports {module}")
    assert wrong == []


def test_every_plugin_module_is_hooks_and_strings():
    """Registering imports nothing heavy: at module level a plugin module imports castform.plugins alone."""
    wrong = []
    for path in (ROOT / "plugins").glob("*/castform_*/plugin.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module not in ("__future__", "castform.plugins"):
                if node.module and node.module.partition(".")[0] in (*OURS, *HEAVY, "pydantic", "openai"):
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} imports {node.module}")
    assert wrong == []
