"""Golden behaviours of bundles: real projects in folders, made and loaded by processes of their own."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import benchmax
from benchmax.bundle import (
    Bundle,
    BundleMetadata,
    BundlingError,
    IncompatibleBenchmaxError,
    IncompatiblePythonError,
    IncompatibleRuntimeError,
    bundle_digest,
    dump_bundle,
    load_bundle,
    read_bundle,
    unregistered_local_refs,
    validate_bundle_compatibility,
)
from benchmax.envs import Dataset, Environment, Example, RolloutAttempt, RolloutRequest

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
GOLDEN_SOURCE = "class ExampleEnv: ...\n"
GOLDEN_DIGEST = "962277149279c9e4f8475e21a98c838c8968710f3cc2bbaac810a993d51b9cbe"
GOLDEN_DIGEST_BEYOND_ASCII = "144f5d1e1386660b00093cb92772e90544ad14e6e919939676b4efb6d6ad4126"

ENVIRONMENT = """
from benchmax.envs import Dataset, Environment, Example, RolloutAttempt
{imports}

class Sums(Environment):
    def __init__(self, bonus=0):
        self.bonus = bonus

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        return Dataset([Example(f"{{split}}-1", {{"answer": {answer}}})])

    async def run_rollout(self, request):
        {body}
        return RolloutAttempt(
            rollout_id=request.rollout_id, termination_reason="finished", rewards={{"right": {answer}}}
        )
"""


def write_environment(path: Path, *, imports: str = "", answer: str = "1.0", body: str = "pass") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(ENVIRONMENT.format(imports=imports, answer=answer, body=body), encoding="utf-8")


def write_project(folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(f'[project]\nname = "{name}"\nversion = "1"\n', encoding="utf-8")


def run_python(code: str, *, cwd: Path, path: tuple[Path, ...] = (), seed: str = "0") -> str:
    """Run code in a clean process and return what it printed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env |= {"PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONHASHSEED": seed}
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


DUMP = """
import json, warnings
from pathlib import Path
from benchmax.bundle import BundlingError, dump_bundle, write_bundle
{setup}
warnings.simplefilter("ignore")
tries, answers = {tries!r}, []
for number, options in enumerate(tries):
    try:
        bundle = dump_bundle(Sums, **eval(options))
    except BundlingError as error:
        answers.append(str(error))
    else:
        write_bundle(bundle, Path({out!r}) / f"{{number}}.castform-bundle")
        answers.append("made")
print(json.dumps(answers))
"""

LOAD = """
import asyncio, json, sys
from pathlib import Path
from benchmax.bundle import load_bundle, read_bundle
from benchmax.envs import RolloutRequest, StaticBearerAuth
answers = []
for name in {names!r}:
    environment = load_bundle(read_bundle(Path(name)))
    example = asyncio.run(environment.create_dataset("train", Path(".")))[0]
    request = RolloutRequest("r", example, "m", "http://127.0.0.1:9/v1", StaticBearerAuth("k"))
    attempt = asyncio.run(environment.run_rollout(request))
    answers.append([type(environment).__name__, environment.bonus, dict(attempt.rewards)])
print(json.dumps(answers))
"""


def dump_in_process(
    setup: str, *, out: Path, cwd: Path, path: tuple[Path, ...] = (), tries: tuple[str, ...] = ("{}",)
) -> list[str]:
    """Return "made" or the error of every `dump_bundle(Sums, **options)`; bundles are out/0, out/1, …"""
    answers = run_python(DUMP.format(setup=setup, tries=list(tries), out=str(out)), cwd=cwd, path=path)
    return list(json.loads(answers))


def load_in_clean_process(*bundles: Path, cwd: Path) -> list[Any]:
    """Return name, bonus and rewards of each bundle's environment, loaded where no source is on the path."""
    return list(json.loads(run_python(LOAD.format(names=[str(b) for b in bundles]), cwd=cwd)))


def make_metadata(**changed: Any) -> BundleMetadata:
    fields = {
        "pip_dependencies": ["Requests >= 2"],
        "python_version": HERE,
        "benchmax_version": benchmax.__version__,
        "env_class_source": GOLDEN_SOURCE,
    }
    return BundleMetadata(**{**fields, **changed})


class Plain(Environment[Any, RolloutAttempt]):
    """An environment of this very module."""

    def __init__(self, bonus: int = 0) -> None:
        self.bonus = bonus

    async def create_dataset(
        self, split: str, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Any]:
        return Dataset([Example("a", {})])

    async def run_rollout(self, request: RolloutRequest[Any]) -> RolloutAttempt:
        return RolloutAttempt(
            rollout_id=request.rollout_id, termination_reason="finished", rewards={"x": 1.0}
        )


# --- metadata and digest ---------------------------------------------------------------------


def test_dependencies_take_their_canonical_form_and_are_sorted_and_frozen() -> None:
    declared = ['Widget[B,a] < 2, >= 1 ; python_version < "3.13"', "A.b_C", "zeta==1"]
    metadata = make_metadata(pip_dependencies=declared)
    assert metadata.pip_dependencies == ("a-b-c", 'widget[a,b]<2,>=1; python_version < "3.13"', "zeta==1")
    declared.append("later")
    assert len(metadata.pip_dependencies) == 3
    with pytest.raises(AttributeError):
        metadata.pip_dependencies = ()  # type: ignore[misc]  # it is frozen


@pytest.mark.parametrize(
    "repeated",
    [["foo", "Foo>1"], ["foo[a]", "foo[b]"], ['f-o; python_version < "3"', 'F_O; python_version >= "3"']],
)
def test_a_distribution_is_declared_once_whatever_its_markers_and_extras(repeated: list[str]) -> None:
    with pytest.raises(ValueError, match=r"dependency target '[fo-]+' is declared more than once"):
        make_metadata(pip_dependencies=repeated)


@pytest.mark.parametrize("wrong", ["requests", {"requests"}, None, 3, b"requests"])
def test_dependencies_are_a_sequence(wrong: object) -> None:
    with pytest.raises(TypeError, match="must be a sequence of PEP 508 strings"):
        make_metadata(pip_dependencies=wrong)


def test_a_dependency_that_is_none_is_refused_without_repeating_it() -> None:
    with pytest.raises(ValueError, match="dependency at index 1 is not a valid PEP 508") as caught:
        make_metadata(pip_dependencies=["fine", "x y https://user:hunter2@host/"])
    assert "hunter2" not in str(caught.value)
    with pytest.raises(TypeError, match="dependency at index 0 must be text"):
        make_metadata(pip_dependencies=[3])


def test_metadata_is_canonical_json() -> None:
    metadata = make_metadata(python_version="3.12", benchmax_version="0.1.0", env_class_source="é\n")
    assert (
        metadata.to_json_bytes()
        == (
            '{"benchmax_version":"0.1.0","env_class_source":"é\\n",'
            '"pip_dependencies":["requests>=2"],"python_version":"3.12"}'
        ).encode()
    )
    assert BundleMetadata.from_json_bytes(metadata.to_json_bytes()) == metadata


def test_metadata_without_source_is_null() -> None:
    metadata = make_metadata(env_class_source=None)
    assert b'"env_class_source":null' in metadata.to_json_bytes()
    assert BundleMetadata.from_json_bytes(metadata.to_json_bytes()) == metadata
    left_out = json.loads(metadata.to_json_bytes())
    del left_out["env_class_source"]
    assert BundleMetadata.from_json_bytes(json.dumps(left_out).encode()) == metadata


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"python_version": 3}, "python_version must be a non-empty string, not 3"),
        ({"benchmax_version": " "}, "benchmax_version must be a non-empty string"),
        ({"pip_dependencies": "requests"}, "of no use: pip dependencies must be a sequence"),
        ({"env_class_source": 7}, "of no use: env_class_source must be text or None, not int"),
    ],
)
def test_metadata_values_of_no_use_are_named(change: dict[str, object], fault: str) -> None:
    known = json.loads(make_metadata().to_json_bytes())
    with pytest.raises(ValueError, match=fault):
        BundleMetadata.from_json_bytes(json.dumps({**known, **change}).encode())


def test_unknown_and_missing_metadata_keys_are_named() -> None:
    known = json.loads(make_metadata().to_json_bytes())
    with pytest.raises(ValueError, match=r"unsupported keys \['color', 'size'\]; re-bundle"):
        BundleMetadata.from_json_bytes(json.dumps({**known, "size": 1, "color": 2}).encode())
    del known["python_version"]
    with pytest.raises(ValueError, match="missing 'python_version'"):
        BundleMetadata.from_json_bytes(json.dumps(known).encode())


@pytest.mark.parametrize("text", [b"[]", b"{", b"\xff", b'"x"', b"", b"[" * 100_000])
def test_metadata_must_be_a_json_object(text: bytes) -> None:
    with pytest.raises(ValueError, match="bundle metadata must be a JSON object"):
        BundleMetadata.from_json_bytes(text)


def test_the_golden_digest() -> None:
    metadata = make_metadata(python_version="3.12", benchmax_version="0.1.0")
    assert bundle_digest(Bundle(b"pickle", metadata)) == GOLDEN_DIGEST
    beyond_ascii = make_metadata(
        python_version="3.12", benchmax_version="0.1.0", env_class_source="class \u00c3\u2028: ...\n"
    )
    assert bundle_digest(Bundle(b"pickle", beyond_ascii)) == GOLDEN_DIGEST_BEYOND_ASCII


def test_the_digest_covers_both_parts_and_their_border() -> None:
    metadata = make_metadata()
    digests = {
        bundle_digest(Bundle(b"pickle", metadata)),
        bundle_digest(Bundle(b"pickl", metadata)),
        bundle_digest(Bundle(b"pickle", make_metadata(env_class_source="class Other: ...\n"))),
        bundle_digest(Bundle(b"pickle" + metadata.to_json_bytes()[:1], metadata)),
    }
    assert len(digests) == 4


def test_equivalent_dependencies_give_one_digest() -> None:
    one = make_metadata(pip_dependencies=["B_b>=1,<2", "a"])
    other = make_metadata(pip_dependencies=("A", "b.B <2, >=1"))
    assert bundle_digest(Bundle(b"p", one)) == bundle_digest(Bundle(b"p", other))


# --- compatibility ---------------------------------------------------------------------------

MAJOR, MINOR = benchmax.__version__.split(".")[:2]


def test_another_patch_version_is_fine() -> None:
    validate_bundle_compatibility(
        make_metadata(python_version=f"{HERE}.99", benchmax_version=f"{MAJOR}.{MINOR}.99")
    )


@pytest.mark.parametrize("version", ["3.99", "2.7", "4", "x", f"{HERE}1"])
def test_another_minor_version_of_python_is_refused(version: str) -> None:
    with pytest.raises(IncompatiblePythonError, match=f"made by Python {version}, and this is Python {HERE}"):
        validate_bundle_compatibility(make_metadata(python_version=version))
    assert issubclass(IncompatiblePythonError, IncompatibleRuntimeError)


@pytest.mark.parametrize("version", [f"{MAJOR}.{int(MINOR) + 1}.0", f"{int(MAJOR) + 1}.{MINOR}", "unknown"])
def test_another_minor_version_of_benchmax_is_refused(version: str) -> None:
    with pytest.raises(IncompatibleBenchmaxError, match=f"made with benchmax {version}"):
        validate_bundle_compatibility(make_metadata(benchmax_version=version))
    assert issubclass(IncompatibleBenchmaxError, IncompatibleRuntimeError)


class Ran(Exception):
    """Shows that a pickle was loaded."""


def _run() -> None:
    raise Ran


class _Trap:
    def __reduce__(self) -> Any:
        return _run, ()


def test_compatibility_is_checked_before_anything_is_unpickled() -> None:
    trap = cloudpickle.dumps(_Trap())
    with pytest.raises(IncompatiblePythonError):
        load_bundle(Bundle(trap, make_metadata(python_version="3.99")))
    with pytest.raises(IncompatibleBenchmaxError):
        load_bundle(Bundle(trap, make_metadata(benchmax_version="unknown")))
    with pytest.raises(BundlingError, match="Ran"):
        load_bundle(Bundle(trap, make_metadata()))


# --- what is loaded --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (3, "holds int, not a pair"),
        ((Plain,), "holds tuple, not a pair"),
        ((int, {}), "int.*not an Environment class"),
        ((Plain(), {}), "not an Environment class"),
        ((Plain, [1]), "not a mapping of names"),
        ((Plain, {1: 2}), "not a mapping of names"),
    ],
)
def test_only_a_class_with_arguments_is_loaded(payload: object, words: str) -> None:
    with pytest.raises(BundlingError, match=words):
        load_bundle(Bundle(cloudpickle.dumps(payload), make_metadata()))


def test_a_damaged_pickle_is_one_clear_error() -> None:
    with pytest.raises(BundlingError, match="cannot be unpickled: UnpicklingError"):
        load_bundle(Bundle(b"pickle", make_metadata()))


def test_a_module_that_is_not_there_is_named() -> None:
    pickled = pickle.dumps(Plain).replace(b"test_benchmax_golden_bundles", b"test_benchmax_golden_bundleX")
    with pytest.raises(BundlingError, match=r"needs the module '.*golden_bundleX'"):
        load_bundle(Bundle(pickled, make_metadata()))


def test_a_bundle_loads_as_an_environment_or_as_class_and_arguments() -> None:
    bundle = dump_bundle(Plain, constructor_args={"bonus": 3})
    environment = load_bundle(bundle)
    assert isinstance(environment, Plain) and environment.bonus == 3
    assert load_bundle(bundle, instantiate=False) == (Plain, {"bonus": 3})
    assert bundle.metadata.python_version == HERE
    assert bundle.metadata.benchmax_version == benchmax.__version__
    assert (bundle.metadata.env_class_source or "").startswith("class Plain(Environment")


def test_a_class_made_by_exec_has_no_source_unless_it_is_given() -> None:
    space: dict[str, Any] = {"__name__": "made_by_exec"}
    exec(ENVIRONMENT.format(imports="", answer="1.0", body="pass"), space)
    assert dump_bundle(space["Sums"]).metadata.env_class_source is None
    given = dump_bundle(space["Sums"], env_class_source="class Sums: ...")
    assert given.metadata.env_class_source == "class Sums: ..."
    assert type(load_bundle(given)).__name__ == "Sums"


# --- what is refused at once -----------------------------------------------------------------


class Unfinished(Environment[Any, RolloutAttempt]):
    """Lacks both methods."""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (int, "int does not derive from benchmax.envs.Environment"),
        (Plain(), "is not a class"),
        (Unfinished, "Unfinished is not complete: it still lacks create_dataset, run_rollout"),
    ],
)
def test_only_a_concrete_environment_class_is_bundled(value: Any, words: str) -> None:
    with pytest.raises(BundlingError, match=words):
        dump_bundle(value)


def test_wrong_dependencies_are_refused_before_anything_is_pickled() -> None:
    with pytest.raises(BundlingError, match="not a valid PEP 508"):
        dump_bundle(Plain, constructor_args={"bonus": _Trap()}, pip_dependencies=["!"])
    with pytest.raises(BundlingError, match="sequence of PEP 508 strings"):
        dump_bundle(Plain, pip_dependencies="requests")


@pytest.mark.parametrize("version", ["unknown", "", None])
def test_an_unknown_benchmax_cannot_bundle(monkeypatch: pytest.MonkeyPatch, version: Any) -> None:
    monkeypatch.setattr(benchmax, "__version__", version)
    with pytest.raises(BundlingError, match="version of this benchmax"):
        dump_bundle(Plain)


def test_what_cannot_be_pickled_is_named() -> None:
    with pytest.raises(BundlingError, match=r"Plain cannot be pickled: TypeError: .*generator"):
        dump_bundle(Plain, constructor_args={"bonus": (n for n in range(3))})


# --- projects --------------------------------------------------------------------------------


def test_a_src_project_loads_where_its_source_is_not(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    elsewhere.mkdir()
    write_project(project, "sums")
    package = project / "src" / "sums"
    write_environment(
        package / "environment.py",
        imports="from sums import rules\nfrom . import tables",
        answer="rules.pay()",
    )
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "rules.py").write_text(
        "from sums.tables import TABLE\n\ndef pay():\n    return TABLE['pay']\n", encoding="utf-8"
    )
    (package / "tables.py").write_text("TABLE = {'pay': 0.75}\n", encoding="utf-8")
    made = dump_in_process(
        "from sums.environment import Sums",
        out=tmp_path,
        cwd=elsewhere,
        path=(project / "src",),
        tries=('{"constructor_args": {"bonus": 2}}', '{"auto_local_modules": False}'),
    )
    assert made[0] == "made"
    assert "missing local_modules=[sums.environment]" in made[1]
    bundle = tmp_path / "0.castform-bundle"
    assert load_in_clean_process(bundle, cwd=elsewhere) == [["Sums", 2, {"right": 0.75}]]
    assert unregistered_local_refs(read_bundle(bundle).pickled) == []


def test_a_single_file_project_loads_where_its_source_is_not(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    elsewhere.mkdir()
    project.mkdir()
    write_environment(
        project / "single.py", imports="import sidekick\nLIMIT = 0.5", answer="min(LIMIT, sidekick.pay())"
    )
    (project / "sidekick.py").write_text("def pay():\n    return 0.9\n", encoding="utf-8")
    setup = "from single import Sums"
    assert dump_in_process(setup, out=tmp_path, cwd=project) == ["made"]
    assert load_in_clean_process(tmp_path / "0.castform-bundle", cwd=elsewhere) == [
        ["Sums", 0, {"right": 0.5}]
    ]


def write_siblings(tmp_path: Path, *, body: str = "pass", answer: str = "sibling.pay()") -> tuple[Path, Path]:
    """Write a project that uses a module of another project beside it."""
    project, other = tmp_path / "project", tmp_path / "other"
    write_project(project, "sums")
    write_project(other, "sibling")
    imports = "import sibling" if "sibling" in answer else ""
    write_environment(project / "single.py", imports=imports, answer=answer, body=body)
    (other / "sibling.py").write_text("def pay():\n    return 0.25\n", encoding="utf-8")
    info = other / "sibling_things-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Sibling.Things\nVersion: 1.0\n")
    (info / "RECORD").write_text("sibling.py,,\n")
    return project, other


def test_a_sibling_project_must_be_declared_or_given(tmp_path: Path) -> None:
    project, other = write_siblings(tmp_path)
    made = dump_in_process(
        "from single import Sums\nimport sibling",
        out=tmp_path,
        cwd=project,
        path=(other,),
        tries=("{}", '{"local_modules": [sibling]}', '{"pip_dependencies": ["sibling_things>=1"]}'),
    )
    assert "missing local_modules=[sibling]" in made[0]
    assert made[1:] == ["made", "made"]
    captured, declared = (tmp_path / f"{n}.castform-bundle" for n in (1, 2))
    assert load_in_clean_process(captured, cwd=tmp_path) == [["Sums", 0, {"right": 0.25}]]
    with pytest.raises(BundlingError, match=r"needs the module 'sibling'"):
        load_bundle(read_bundle(declared))


@pytest.mark.parametrize(
    "body",
    [
        "import sibling",
        "from sibling import pay",
        'import importlib; importlib.import_module("sibling")',
        '__import__("sibling")',
        "(lambda: __import__('sibling').pay())()",
        "from importlib import import_module as load; from importlib import import_module; import_module('sibling')",
    ],
)
def test_an_import_inside_a_method_is_refused_and_local_modules_do_not_help(
    tmp_path: Path, body: str
) -> None:
    project, other = write_siblings(tmp_path, body=body, answer="1.0")
    made = dump_in_process(
        "from single import Sums\nimport sibling",
        out=tmp_path,
        cwd=project,
        path=(other,),
        tries=("{}", '{"local_modules": [sibling]}', '{"pip_dependencies": ["sibling-things"]}'),
    )
    assert all(
        "delayed import of local source: sibling (in Sums.run_rollout)" in answer for answer in made[:2]
    )
    assert made[2] == "made"


def test_imports_of_installed_modules_and_of_unused_functions_may_be_late(tmp_path: Path) -> None:
    project = tmp_path / "project"
    write_project(project, "sums")
    (project / "local.py").write_text("", encoding="utf-8")
    unused = "def unused():\n    import local\n"
    body = "import json, benchmax.rewards, packaging.version, no_such_module if False else json"
    write_environment(project / "single.py", imports=unused, body=body.partition(", no_such")[0])
    assert dump_in_process("from single import Sums", out=tmp_path, cwd=project) == ["made"]


def test_local_modules_that_are_taken_along_are_named_in_a_warning(tmp_path: Path) -> None:
    write_project(tmp_path, "sums")
    write_environment(tmp_path / "single.py", imports="import sidekick", answer="sidekick.PAY")
    (tmp_path / "sidekick.py").write_text("PAY = 1.0\n", encoding="utf-8")
    said = run_python(
        """
        import warnings
        from benchmax.bundle import dump_bundle
        from single import Sums
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dump_bundle(Sums)
        print([str(warning.message) for warning in caught])
        """,
        cwd=tmp_path,
    )
    assert said.strip() == "['Sums: took local modules along by value: single, sidekick']"


def test_references_are_found_without_importing_anything() -> None:
    assert unregistered_local_refs(pickle.dumps(Plain)) == [__name__]
    assert unregistered_local_refs(pickle.dumps([Path("x"), Dataset([]), pytest.Item])) == []
    with pytest.raises(BundlingError, match="not a pickle"):
        unregistered_local_refs(b"junk")


def test_a_class_of_the_running_script_is_bundled(tmp_path: Path) -> None:
    write_environment(tmp_path / "script.py", imports="import sidekick", answer="sidekick.PAY")
    (tmp_path / "sidekick.py").write_text("PAY = 0.125\n", encoding="utf-8")
    with (tmp_path / "script.py").open("a", encoding="utf-8") as script:
        script.write(
            "\n\nif __name__ == '__main__':\n"
            "    from pathlib import Path\n"
            "    from benchmax.bundle import dump_bundle, write_bundle\n"
            f"    write_bundle(dump_bundle(Sums), Path({str(tmp_path / 'b')!r}))\n"
        )
    run_python("import runpy; runpy.run_path('script.py', run_name='__main__')", cwd=tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert load_in_clean_process(tmp_path / "b", cwd=elsewhere) == [["Sums", 0, {"right": 0.125}]]


def test_cached_functions_dataclasses_and_models_of_the_project_go_along(tmp_path: Path) -> None:
    write_project(tmp_path, "sums")
    imports = """
import dataclasses, enum, functools, re
import pydantic


@functools.lru_cache(maxsize=7, typed=True)
def power(n):
    return 1 if n == 0 else 2 * power(n - 1)


@functools.cache
def half():
    return 0.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    x: int = 2


class Config(pydantic.BaseModel):
    pay: float = 0.25


class Level(enum.IntEnum):
    LOW = 1
"""
    answer = "float(power(2) * half() * Point().x * Config().pay * Level.LOW)"
    write_environment(tmp_path / "single.py", imports=imports, answer=answer)
    assert dump_in_process("from single import Sums", out=tmp_path, cwd=tmp_path) == ["made"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    loaded = load_in_clean_process(tmp_path / "0.castform-bundle", cwd=elsewhere)
    assert loaded == [["Sums", 0, {"right": 1.0}]]


def test_what_can_only_be_looked_up_by_name_is_refused(tmp_path: Path) -> None:
    write_project(tmp_path, "sums")
    imports = """
class Single:
    def __reduce__(self):
        return "SINGLE"


SINGLE = Single()
"""
    write_environment(tmp_path / "single.py", imports=imports, body="assert SINGLE")
    [said] = dump_in_process("from single import Sums", out=tmp_path, cwd=tmp_path)
    assert "Sums: cannot be taken along by value: single.SINGLE" in said
