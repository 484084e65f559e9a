"""task.toml: today's schema, the older ones, and everything that is wrong at once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform.errors import UsageError
from castform.sandbox.contract import NetworkPolicy
from castform_harbor.task import load_task
from castform_harbor.task_config import Artifact, CollectHook, resolve_verifier_mode
from castform_harbor.task_parsing import parse_task, read_task
from castform_harbor.toml_table import Findings, Table


def parse(text):
    config, warnings, fault = parse_task(text, where="task.toml")
    if fault is not None:
        raise fault
    return config, warnings


def faults(text):
    with pytest.raises(UsageError) as raised:
        parse(text)
    return [line.strip() for line in str(raised.value).splitlines()[1:]]


def test_an_empty_file_has_harbors_defaults():
    config, warnings = parse("")
    assert warnings == ()
    assert config.schema_version == "1.4"
    assert config.agent.timeout_seconds is None
    assert config.verifier.timeout_seconds == 600
    assert config.environment.build_timeout_seconds == 600
    assert config.environment.network == NetworkPolicy(mode="public")
    assert not config.environment.says_network
    assert (config.environment.cpus, config.environment.memory_mb, config.environment.storage_mb) == (
        None,
        None,
        None,
    )
    assert resolve_verifier_mode(config) == "shared"


def test_older_keys_mean_what_the_newer_ones_do():
    config, warnings = parse(
        'version = "1.0"\n[environment]\nmemory = "2G"\nstorage = "512M"\nallow_internet = false'
    )
    assert config.schema_version == "1.0"
    assert (config.environment.memory_mb, config.environment.storage_mb) == (2048, 512)
    assert config.environment.network == NetworkPolicy(mode="none")
    assert [warning.split()[0] for warning in warnings] == [
        "version",
        "environment.allow_internet",
        "environment.memory",
        "environment.storage",
    ]


def test_a_newer_key_wins_over_an_older_one():
    config, _ = parse('[environment]\nallow_internet = false\nnetwork_mode = "public"')
    assert config.environment.network.mode == "public"


def test_sizes_that_disagree_are_a_fault():
    assert "memory_mb is 1024" in faults('[environment]\nmemory = "2G"\nmemory_mb = 1024')[0]


def test_unknown_keys_are_named_with_their_place():
    _, warnings = parse('misspelt = 1\n[agent]\ntimeout = 5\n[[steps]]\nname = "a"\nretries = 2')
    assert [warning.split()[0] for warning in warnings] == ["agent.timeout", "steps[0].retries", "misspelt"]


def test_what_an_author_writes_under_metadata_is_his_own():
    config, warnings = parse('[metadata]\nanything = "goes"')
    assert (config.metadata, warnings) == ({"anything": "goes"}, ())


def test_every_fault_is_told_at_once():
    found = faults(
        '[task]\nname = "no-org"\n[agent]\ntimeout_sec = -1\nuser = true\n'
        "[environment]\ncpus = nan\n[[steps]]\nname = 'a/b'\n"
    )
    assert sorted(fault.split()[0] for fault in found) == [
        "agent.timeout_sec",
        "agent.user",
        "environment.cpus",
        "steps[0].name",
        "task.name",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[environment]\ncpus = inf",
        "[environment]\ncpus = 0",
        "[environment]\nmemory_mb = 1.5",
        '[environment]\nmemory = "lots"',
        '[environment]\nmemory = ".G"',
        '[environment]\nmemory = "1.2.3G"',
        pytest.param(f'[environment]\nstorage = "{"9" * 400}G"', id="storage of 400 digits"),
        '[environment]\nos = "plan9"',
        '[environment]\nnetwork_mode = "some"',
        '[environment]\nallowed_hosts = ["example.org"]',
        '[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["http://example.org"]',
        '[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["*.10.0.0.1"]',
        '[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["10.0.0.1/8"]',
        '[verifier]\nenvironment_mode = "shared"\n[verifier.environment]\ncpus = 1',
        "[verifier]\nenv = { A = 1 }",
        'artifacts = ["/a/../b"]',
        'artifacts = ["/"]',
        'artifacts = [{ source = "/a", destination = "/b" }]',
        'artifacts = [{ source = "/a", destination = "../b" }]',
        'artifacts = [{ source = "/a", destination = "manifest.json" }]',
        'artifacts = [{ source = "a", service = "db" }]',
        'multi_step_reward_strategy = "max"',
        '[[steps]]\nname = "one"\n[[steps]]\nname = "ONE"',
        '[[steps]]\nname = "con.txt"',
        '[[steps]]\nname = "one."',
        '[[steps]]\nname = "one"\nmin_reward = "much"',
        "[environment.healthcheck]\nretries = 1",
        "[[verifier.collect]]\nuser = 'root'",
        '[[environment.mcp_servers]]\nname = "m"\ntransport = "stdio"',
        '[[environment.mcp_servers]]\nname = "m"',
        '[[environment.mcp_servers]]\nname = "m"\nurl = "http://m"\nheaders = { Authorization = "Bearer abc" }',
        '[[steps]]\nname = "one"\nmin_reward = nan',
        '[environment.env]\n"A=B" = "x"',
        '[environment.env]\nA = "x\\u0000"',
        '[agent]\nuser = "a\\u0000"',
        'artifacts = ["/a\\u0000"]',
        "steps = 3",
        "[agent",
    ],
)
def test_what_harbor_refuses_is_refused(text):
    with pytest.raises(UsageError, match=r"task\.toml"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        f"a = {'9' * 5000}",
        f"a = {'[' * 5000}",
        f'[[steps]]\nname = "one"\nmin_reward = {"9" * 400}',
    ],
    ids=["digits", "depth", "threshold"],
)
def test_what_is_too_much_for_a_reader_is_refused_in_words(text):
    with pytest.raises(UsageError, match=r"task\.toml"):
        parse(text)


def test_hosts_are_kept_in_normal_form():
    config, _ = parse(
        '[environment]\nnetwork_mode = "allowlist"\n'
        'allowed_hosts = ["Example.ORG.", "*.example.org", "192.0.2.0/24", "2001:DB8::0001"]'
    )
    assert config.environment.network == NetworkPolicy(
        mode="allowlist", allowed_hosts=("example.org", "*.example.org", "192.0.2.0/24", "2001:db8::1")
    )


def test_a_verifiers_fields_are_read():
    config, _ = parse(
        '[verifier]\nuser = 1000\nnetwork_mode = "no-network"\n'
        "[[verifier.collect]]\ncommand = 'dump'\ntimeout_sec = 5\n"
        "[verifier.environment]\ncpus = '0.5'"
    )
    assert config.verifier.user == "1000"
    assert config.verifier.network == NetworkPolicy()
    assert config.verifier.collect == (CollectHook(command="dump", timeout_seconds=5),)
    assert config.verifier.environment.cpus == 0.5
    assert resolve_verifier_mode(config) == "separate"


def test_a_steps_verifier_does_not_inherit_the_tasks_timeout():
    config, _ = parse('[verifier]\ntimeout_sec = 30\n[[steps]]\nname = "a"\nmin_reward = { reward = 0.5 }')
    assert config.steps[0].verifier.timeout_seconds == 600
    assert config.steps[0].min_reward == {"reward": 0.5}


def test_artifacts_are_texts_or_tables():
    config, _ = parse('artifacts = ["/a", { source = "b", destination = "c/d", exclude = ["*.o"] }]')
    assert config.artifacts == (
        Artifact(source="/a"),
        Artifact(source="b", destination="c/d", exclude=("*.o",)),
    )


def test_an_mcp_server_may_name_a_secret_but_not_hold_one():
    config, _ = parse(
        '[[environment.mcp_servers]]\nname = "m"\ntransport = "http"\nurl = "http://m"\n'
        'headers = { Authorization = "Bearer ${TOKEN}", Accept = "text/plain" }'
    )
    server = config.environment.mcp_servers[0]
    assert server.transport == "streamable-http"
    assert server.headers["Authorization"] == "Bearer ${TOKEN}"


def test_a_task_is_named_by_its_table_or_its_folder(write_task):
    assert load_task(write_task(name="plain")).name == "plain"
    task = load_task(write_task('[task]\nname = "org/given"', name="other"))
    assert (task.name, task.short_name) == ("org/given", "given")


def test_any_schema_version_is_taken(write_task):
    assert load_task(write_task('schema_version = "99.0"')).config.schema_version == "99.0"


KEYS = st.sampled_from(
    "version schema_version task name authors metadata agent verifier environment solution steps artifacts env "
    "timeout_sec user network_mode allowed_hosts collect command healthcheck retries cpus memory memory_mb os tpu "
    "mcp_servers headers url transport args min_reward source destination exclude service".split()
)
SCALARS = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(["", "a/b", "2G", "public", "main", "${A}", "separate"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_whatever_a_table_holds_is_read_or_a_fault(values):
    findings = Findings()
    read_task(Table(values, "", findings))
    assert all(isinstance(text, str) for text in (*findings.faults, *findings.warnings))
