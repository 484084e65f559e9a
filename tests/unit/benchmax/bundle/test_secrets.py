"""What counts as a secret, where it is looked for, and that it is never shown."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import benchmax
from benchmax.bundle import (
    Bundle,
    BundleData,
    BundleMetadata,
    BundleSecretError,
    BundleSecretWarning,
    BundlingError,
    DataFile,
    dump_bundle,
    load_bundle,
)
from benchmax.bundle.pickle_graph import parse_pickle
from benchmax.bundle.secret_patterns import is_placeholder, secret_in, secret_named, secret_variables
from benchmax.bundle.secret_scan import find_secrets
from benchmax.envs import Dataset, Environment, InjectedAuth, RolloutAttempt, StaticBearerAuth

LONG = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


class Judged(Environment[Any, RolloutAttempt]):
    """An environment that takes anything."""

    def __init__(self, **anything: Any) -> None:
        self.anything = anything

    async def create_dataset(
        self, split: str, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Any]:
        return Dataset([])

    async def run_rollout(self, request: Any) -> RolloutAttempt:
        raise NotImplementedError


@dataclass
class JudgeLike:
    model: str
    auth: object


def places(
    payload: object = None,
    *,
    dependencies: tuple[str, ...] = (),
    source: str | None = None,
    files: tuple[DataFile, ...] = (),
    environment: dict[str, str] | None = None,
) -> list[str]:
    """Return what is found in a bundle of `(int, payload)`, as text."""
    metadata = BundleMetadata(
        pip_dependencies=dependencies,
        python_version=f"{sys.version_info.major}.{sys.version_info.minor}",
        benchmax_version=benchmax.__version__,
        env_class_source=source,
    )
    bundle = Bundle(cloudpickle.dumps((int, payload or {})), metadata, BundleData(files=files))
    found = find_secrets(bundle, parse_pickle(bundle.pickled), environment=environment or {})
    return [str(finding) for finding in found]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("sk-proj-abcdefghij0123456789", "an API key (sk-…)"),
        ("key=sk-ant-api03-abcdefghij0123456789;", "an API key (sk-…)"),
        ("ghp_" + LONG, "a GitHub token"),
        ("github_pat_" + LONG, "a GitHub token"),
        ("glpat-" + LONG[:20], "a GitLab token"),
        ("hf_" + LONG, "a Hugging Face token"),
        ("AKIA0123456789ABCDEF", "an AWS access key"),
        ("AIza" + LONG[:35], "a Google API key"),
        ("xoxb-123456-abcdef", "a Slack token"),
        ("sk_live_" + LONG[:16], "a Stripe key"),
        ("npm_" + LONG, "a package index token"),
        ("pypi-AgEIcHlwaS5vcmc" + LONG, "a package index token"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "a JSON web token"),
        ("-----BEGIN RSA PRIVATE KEY-----\nxyz", "a private key"),
        ("-----BEGIN PRIVATE KEY-----", "a private key"),
        ("Authorization: Bearer abcdefghij0123456789", "a bearer token"),
        ("postgresql://user:hunter2@host/db", "a password in a URL"),
        ("https://:tok3n@host/simple", "a password in a URL"),
    ],
)
def test_forms_of_secrets_are_known(text: str, kind: str) -> None:
    assert secret_in(text) == kind


@pytest.mark.parametrize(
    "text",
    [
        "sk-learn-like-models-with-long-names",
        "sk-short1",
        "task-abcdefghij0123456789abc",
        "ghp_short",
        "hf_transfer",
        "https://host/path:8080/a@b",
        "https://host:8080/",
        "postgresql://user:{password}@host",
        "postgresql://user:$PASSWORD@host",
        "mailto:someone@example.org",
        "Bearer token",
        "a bearer of good news, 2024",
        "eyJ is how JSON starts",
        "-----BEGIN PUBLIC KEY-----",
        "12345678901234567890",
        "",
    ],
)
def test_ordinary_text_is_no_secret(text: str) -> None:
    assert secret_in(text) is None


@pytest.mark.parametrize(
    "name", ["api_key", "API_KEY", "openai_api_key", "apikey", "client_secret", "password", "authToken",
             "auth_token", "access-token", "Authorization", "db_passwd", "private_key", "credentials", "secret_key"]
)  # fmt: skip
def test_names_of_secrets_are_known(name: str) -> None:
    assert secret_named(name, "x9-y8-z7-w6") == "a value by this name"


@pytest.mark.parametrize(
    "name",
    [
        "pad_token",
        "eos_token",
        "stop_token",
        "token",
        "key",
        "keys",
        "api_key_env",
        "secretary",
        "max_tokens",
    ],
)
def test_names_of_other_things_are_not_taken_for_secrets(name: str) -> None:
    assert secret_named(name, "x9-y8-z7-w6") is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("12345678", "a value by this name"),
        ("1234567", None),
        ("with a space", None),
        ("OPENAI_API_KEY", None),
        ("EMPTY", None),
        ("<your key>", None),
        ("your-key-here", None),
        ("${KEY_FROM_HERE}", None),
        ("{key}", None),
        ("xxxxxxxxxxxx", None),
        ("", None),
        ("   ", None),
    ],
)
def test_a_placeholder_or_a_short_word_is_no_key(value: str, expected: str | None) -> None:
    assert secret_named("api_key", value) == expected


def test_a_password_may_be_short_or_a_sentence() -> None:
    assert secret_named("password", "abc1") == "a value by this name"
    assert secret_named("passphrase", "correct horse battery") == "a value by this name"
    assert secret_named("password", "") is None


def test_placeholders() -> None:
    assert all(
        map(is_placeholder, ["", " ", "EMPTY", "dummy", "test", "None", "...", "MY_KEY_NAME", "your_key"])
    )
    assert not any(map(is_placeholder, ["s3cret-token", "MYKEY", "emptyish", "testing-1"]))


def test_only_variables_with_secret_names_and_real_values_count() -> None:
    variables = {
        "OPENAI_API_KEY": "value-of-a-key",
        "GH_TOKEN": "value-of-token",
        "PATH": "/usr/bin:/bin",
        "KEYBOARD": "qwertz-layout",
        "SHORT_TOKEN": "1234567",
        "EMPTY_KEY": "your-key-here",
    }
    assert secret_variables(variables) == {"value-of-a-key": "OPENAI_API_KEY", "value-of-token": "GH_TOKEN"}


@pytest.mark.parametrize(
    ("payload", "place"),
    [
        (
            {"judge": {"api_key": "x9-y8-z7-w6"}},
            "constructor argument 'judge'.api_key holds a value by this name",
        ),
        ({"api_key": "x9-y8-z7-w6"}, "constructor argument 'api_key' holds a value by this name"),
        ({"note": "use sk-abcdefghij0123456789"}, "constructor argument 'note' holds an API key (sk-…)"),
        ({"raw": b"sk-abcdefghij0123456789"}, "constructor argument 'raw' holds an API key (sk-…)"),
        ({"deep": [[{"x": ("ghp_" + LONG,)}]]}, "constructor argument 'deep'.x holds a GitHub token"),
        (
            {"auth": StaticBearerAuth("s3cret-token")},
            "constructor argument 'auth': StaticBearerAuth holds a token",
        ),
        (
            {"judge": JudgeLike("m", StaticBearerAuth("s3cret-token"))},
            "constructor argument 'judge'.auth: StaticBearerAuth holds a token",
        ),
    ],
)
def test_secrets_in_arguments_are_named_by_their_place(payload: dict[str, Any], place: str) -> None:
    assert places(payload) == [place]


def test_a_name_of_a_key_and_a_placeholder_token_are_no_secrets() -> None:
    assert (
        places({"auth": InjectedAuth("judge"), "local": StaticBearerAuth("EMPTY"), "eos_token": "</s>"}) == []
    )


def test_a_value_of_an_environment_variable_is_found_wherever_it_stands() -> None:
    environment = {"MY_TOKEN": "plain-looking-value"}
    assert places({"a": "x plain-looking-value y"}, environment=environment) == [
        "constructor argument 'a' holds the value of the environment variable MY_TOKEN"
    ]
    assert places({"a": "plain-looking-valu"}, environment=environment) == []


def test_dependencies_with_credentials_are_found() -> None:
    found = places(
        dependencies=(
            "a @ https://user:hunter2@host/a.whl",
            "b @ https://t0ken@host/b.whl",
            "c @ https://host/c@1.whl",
        )
    )
    assert found == ["dependency a holds a password in a URL", "dependency b holds credentials in its URL"]


def test_the_class_source_is_read_line_by_line_and_by_names() -> None:
    source = (
        "class A:\n"
        "    api_key = 'x9-y8-z7-w6'\n"
        "    def f(self, *, password='pw12', eos_token='</s>'):\n"
        "        self.auth_token: str = 'x9-y8-z7-w7'\n"
        "        call(api_key='x9-y8-z7-w8', headers={'Authorization': 'x9-y8-z7-w9'})\n"
        "        # Bearer abcdefghij0123456789\n"
    )
    assert places(source=source) == [
        "line 6 of the class's source holds a bearer token",
        "'api_key' in line 2 of the class's source holds a value by this name",
        "'password' in line 3 of the class's source holds a value by this name",
        "'auth_token' in line 4 of the class's source holds a value by this name",
        "'api_key' in line 5 of the class's source holds a value by this name",
        "'Authorization' in line 5 of the class's source holds a value by this name",
    ]
    assert places(source="    indented = 1\n  not python (") == []


def test_data_files_are_read_and_judged_by_name() -> None:
    files = (
        DataFile("a.txt", b"ok"),
        DataFile("cfg/.env", b"X=1"),
        DataFile("notes.txt", b"\xff ghp_" + LONG.encode()),
    )
    assert places(files=files) == [
        "data file cfg/.env holds secrets, by its name",
        "data file notes.txt holds a GitHub token",
    ]


class WithSecrets(Judged):
    """Keeps secrets where a class can."""

    endpoint = "postgresql://user:hunter2@host/db"

    async def run_rollout(self, request: Any) -> RolloutAttempt:
        headers = {"x": "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "y": GLOBAL_AUTH}
        raise NotImplementedError(headers)


GLOBAL_AUTH = StaticBearerAuth("s3cret-token-of-the-module")


def test_secrets_in_class_attributes_code_and_globals_are_refused_and_never_shown() -> None:
    with pytest.raises(BundleSecretError) as caught:
        dump_bundle(WithSecrets)
    text = str(caught.value)
    assert "class WithSecrets.endpoint holds a password in a URL" in text
    assert "function WithSecrets.run_rollout holds a GitHub token" in text
    assert "global 'GLOBAL_AUTH': StaticBearerAuth holds a token" in text
    assert not any(secret in text for secret in ("hunter2", "a1B2c3", "s3cret"))


def test_secrets_may_pass_with_a_warning_that_does_not_show_them() -> None:
    with pytest.warns(BundleSecretWarning, match=r"constructor argument 'password' holds a value") as caught:
        bundle = dump_bundle(Judged, constructor_args={"password": "hunter2-hunter2"}, secrets="warn")
    assert not any("hunter2" in str(warning.message) for warning in caught)
    assert load_bundle(bundle).anything == {"password": "hunter2-hunter2"}  # type: ignore[attr-defined]
    with pytest.raises(BundlingError, match="secrets must be 'refuse' or 'warn'"):
        dump_bundle(Judged, secrets="ignore")  # type: ignore[arg-type]


def test_many_places_are_counted_and_not_all_listed() -> None:
    args = {f"password_{n}": {"password": "hunter2-hunter2"} for n in range(11)}
    with pytest.raises(BundleSecretError, match=r"argument 'password_7'\.password .*, and 3 more places"):
        dump_bundle(Judged, constructor_args=args)
