"""From an id or a path to an environment, with clear errors on the way."""

from __future__ import annotations

import json

import pytest

from castform.errors import CastformError, ConfigError, UsageError
from castform.plugins import PluginFailure, load_environment

ENVIRONMENT = """
from benchmax.envs import BaseEnv, Dataset, Example
from helper_of_the_file import WORD

class {name}(BaseEnv):
    max_turns = 1
    def __init__(self, word=WORD):
        super().__init__()
        if word == "boom":
            raise RuntimeError("cannot start")
        self.word = word
    async def create_dataset(self, split, base_dir, *, max_examples=None):
        return Dataset([Example("a", {{"prompt_messages": [{{"role": "user", "content": self.word}}]}})])
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes a Python file, with a module beside it that it may import."""
    import sys

    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "helper_of_the_file.py").write_text('WORD = "hello"\n')

    def write_file(text, name="my_env.py"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    yield write_file
    for module in [m for m in sys.modules if m.startswith(("castform_file_", "helper_of_the_file"))]:
        del sys.modules[module]


def test_a_plugins_environment_comes_with_its_pin(registry, install):
    loaded = load_environment("sound/echo", {"words": ["hm"]}, registry=registry("sound"))
    assert loaded.environment.words == ["hm"]
    assert loaded.base_dir == install() / "castform_env_sound"
    pin = loaded.pin.as_dict()
    assert pin["args"] == {"words": ["hm"], "loud": False}
    assert (pin["id"], pin["distribution"], pin["version"]) == ("sound/echo", "castform-env-sound", "1.2.0")
    assert json.loads(json.dumps(pin)) == pin


def test_one_changed_byte_changes_the_pin(registry, install):
    plugins = registry("sound")
    before = load_environment("sound/echo", registry=plugins).pin
    again = load_environment("sound/echo", registry=plugins).pin
    assert before == again
    with (install() / "castform_env_sound" / "words.txt").open("w") as file:
        file.write("x")
    assert load_environment("sound/echo", registry=plugins).pin.content_sha256 != before.content_sha256


def test_every_wrong_argument_is_reported_at_once(registry):
    with pytest.raises(ConfigError) as caught:
        load_environment("sound/echo", {"wrods": [], "loud": "very", "words": 3}, registry=registry("sound"))
    text = str(caught.value)
    assert "3 wrong arguments" in text and "wrods" in text and "loud" in text and "words = 3" in text
    assert "words, loud" in caught.value.hint


def test_a_factory_that_makes_something_else_is_the_plugins_fault(registry, install):
    plugins = registry("sound")
    (install() / "castform_env_sound" / "env.py").write_text(
        "from pydantic import BaseModel\nclass EchoConfig(BaseModel): pass\ndef make_environment(config): return 3\n"
    )
    with pytest.raises(PluginFailure, match="made int"):
        load_environment("sound/echo", registry=plugins)


def test_a_factory_module_that_is_missing_is_the_plugins_fault(registry, install):
    plugins = registry("sound")
    (install() / "castform_env_sound" / "env.py").unlink()
    with pytest.raises(PluginFailure, match=r"castform_env_sound\.env") as caught:
        load_environment("sound/echo", registry=plugins)
    assert caught.value.stage == "factory"


def test_a_file_with_one_environment_class_needs_no_packaging(write, tmp_path):
    loaded = load_environment(write(ENVIRONMENT.format(name="MyEnv")), {"word": "hi"})
    assert loaded.environment.word == "hi"
    assert loaded.base_dir == tmp_path
    assert (loaded.pin.id, loaded.pin.distribution) == ("my_env.py:MyEnv", "")


def test_a_file_can_be_named_without_its_folder(write, tmp_path, monkeypatch):
    write(ENVIRONMENT.format(name="MyEnv"))
    monkeypatch.chdir(tmp_path)
    assert load_environment("my_env.py").environment.word == "hello"
    assert load_environment("./my_env.py").id == "./my_env.py"


def test_of_two_classes_one_must_be_named(write):
    path = write(ENVIRONMENT.format(name="One") + ENVIRONMENT.format(name="Two"))
    with pytest.raises(UsageError, match="'One', 'Two'") as caught:
        load_environment(path)
    assert f"{path}:One" in caught.value.hint
    assert type(load_environment(f"{path}:Two").environment).__name__ == "Two"
    with pytest.raises(UsageError, match="'Three'"):
        load_environment(f"{path}:Three")


def test_private_imported_and_abstract_classes_are_not_meant(write):
    text = ENVIRONMENT.format(name="_Base") + "\nclass Real(_Base): pass\n"
    assert type(load_environment(write(text)).environment).__name__ == "Real"
    with pytest.raises(UsageError, match="no environment class") as caught:
        load_environment(write("from benchmax.envs import BaseEnv\nclass Half(BaseEnv): pass\n", "half.py"))
    assert "Half still lacks create_dataset" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("x = 1\n", "no environment class", "BaseEnv"),
        ("def f(:\n", "SyntaxError", "line 1"),
        ("\nimport not_there_at_all\n", "not_there_at_all", "line 2"),
        ("import sys\nsys.exit(1)\n", "sys.exit", "line 2"),
    ],
)
def test_a_file_that_is_no_good_says_why_and_where(write, text, message, hint):
    with pytest.raises(CastformError, match=message) as caught:
        load_environment(write(text))
    assert hint in caught.value.hint


@pytest.mark.parametrize("id", ["./gone.py", "gone.py", "/no/such/gone.py", "~/no-such-folder/gone.py"])
def test_a_file_that_is_not_there_is_said_to_be_so(id):
    with pytest.raises(UsageError, match="does not exist"):
        load_environment(id)


@pytest.mark.parametrize("id", ["./folder", "./conf.yaml", "."])
def test_a_path_to_something_else_is_refused(id):
    with pytest.raises(UsageError, match="not a Python file"):
        load_environment(id)


def test_wrong_arguments_of_a_file_name_the_right_ones(write):
    path = write(ENVIRONMENT.format(name="MyEnv"))
    with pytest.raises(ConfigError, match="wrod") as caught:
        load_environment(path, {"wrod": "x"})
    assert "word" in caught.value.hint
    with pytest.raises(CastformError, match="cannot start"):
        load_environment(path, {"word": "boom"})
