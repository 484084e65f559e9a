"""Reading what a verifier wrote (case E2 and the table of measured semantics), and E5's rerun rule."""

from __future__ import annotations

import os
import time

import pytest

from castform_harbor.rewards import (
    MAX_REWARD_BYTES,
    RewardError,
    RewardMissingError,
    RewardParseError,
    needs_rerun,
    read_rewards,
)


def read(tmp_path, **files):
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name.replace("_", ".")).write_bytes(data)
    return read_rewards(tmp_path)


@pytest.mark.parametrize(
    ("files", "values"),
    [
        ({"reward_txt": "1.0\n"}, {"reward": 1.0}),
        ({"reward_txt": " 0.5 "}, {"reward": 0.5}),
        ({"reward_txt": "-2e-1"}, {"reward": -0.2}),
        ({"reward_txt": "7"}, {"reward": 7.0}),
        ({"reward_json": "0.25"}, {"reward": 0.25}),
        ({"reward_json": '{"reward": 0.5}'}, {"reward": 0.5}),
        ({"reward_json": '{"reward": 0.5, "style": 1}'}, {"reward": 0.5, "style": 1.0}),
        ({"reward_json": '{"style": 1, "speed": 2}'}, {"style": 1.0, "speed": 2.0}),
    ],
)
def test_finite_numbers_are_rewards(tmp_path, files, values):
    assert read(tmp_path, **files).values == values


@pytest.mark.parametrize(
    ("files", "error", "said"),
    [
        ({}, RewardMissingError, "neither reward.json nor reward.txt"),
        ({"reward_txt": ""}, RewardMissingError, "empty"),
        ({"reward_txt": " \n"}, RewardMissingError, "empty"),
        ({"reward_json": "{}"}, RewardMissingError, "names no reward"),
        ({"reward_txt": "nan"}, RewardParseError, "nan"),
        ({"reward_txt": "inf"}, RewardParseError, "inf"),
        ({"reward_txt": "1e999"}, RewardParseError, "not finite"),
        ({"reward_txt": "1,0"}, RewardParseError, "1,0"),
        ({"reward_txt": "1_0"}, RewardParseError, "1_0"),
        ({"reward_txt": "PASS 1"}, RewardParseError, "PASS 1"),
        ({"reward_txt": "== 3 passed ==\n1"}, RewardParseError, "3 passed"),
        ({"reward_txt": b"\xff1"}, RewardParseError, "UTF-8"),
        ({"reward_txt": "\u0661"}, RewardParseError, "not one number"),
        ({"reward_json": "{"}, RewardParseError, "no JSON"),
        ({"reward_json": '{"\\ud800": 1}'}, RewardParseError, "no name"),
        ({"reward_json": '{"reward\\n": 1}'}, RewardParseError, "no name"),
        ({"reward_json": b"\xff\xfe{\x00}\x00"}, RewardParseError, "UTF-8"),
        ({"reward_json": '\ufeff{"reward": 1}'}, RewardParseError, "no JSON"),
        ({"reward_json": "[" * 100_000}, RewardParseError, "no JSON"),
        ({"reward_json": "true"}, RewardParseError, "true"),
        ({"reward_json": "null"}, RewardParseError, "null"),
        ({"reward_json": "[1]"}, RewardParseError, "[1]"),
        ({"reward_json": '{"reward": true}'}, RewardParseError, "true"),
        ({"reward_json": '{"reward": NaN}'}, RewardParseError, "not finite"),
        ({"reward_json": '{"reward": 1e309}'}, RewardParseError, "not finite"),
        ({"reward_json": '{"reward": "1"}'}, RewardParseError, '"1"'),
        ({"reward_json": '{"reward": {"a": 1}}'}, RewardParseError, "not a number"),
        ({"reward_json": '{"reward": null}'}, RewardParseError, "null"),
        ({"reward_json": f'{{"reward": 1{"0" * 400}}}'}, RewardParseError, "not finite"),
    ],
)
def test_anything_else_is_an_error_that_shows_what_was_there(tmp_path, files, error, said):
    with pytest.raises(error, match=None) as raised:
        read(tmp_path, **files)
    assert said in str(raised.value)


def test_json_counts_before_text_and_a_disagreement_is_reported(tmp_path):
    rewards = read(tmp_path, reward_json="0.25", reward_txt="1")
    assert rewards.values == {"reward": 0.25}
    assert rewards.source == "reward.json"
    assert rewards.warnings == ("reward.txt says 1.0 and reward.json says 0.25: reward.json counts",)


@pytest.mark.parametrize("text", ["", "3 passed", b"\xff"], ids=["empty", "words", "bytes"])
def test_text_that_is_no_reward_takes_none_from_json(tmp_path, text):
    rewards = read(tmp_path, reward_json="0.25", reward_txt=text)
    assert rewards.values == {"reward": 0.25}
    assert rewards.warnings[0].endswith("reward.json counts")


def test_files_that_agree_are_no_news(tmp_path):
    assert read(tmp_path, reward_json='{"reward": 1}', reward_txt="1.0").warnings == ()


def test_broken_json_is_not_replaced_by_text(tmp_path):
    with pytest.raises(RewardParseError):
        read(tmp_path, reward_json="{", reward_txt="1")


def test_a_key_that_is_named_twice_is_reported(tmp_path):
    rewards = read(tmp_path, reward_json='{"reward": 1, "reward": 0}')
    assert rewards.values == {"reward": 0.0}
    assert "more than once" in rewards.warnings[0]


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text("1")
    (tmp_path / "reward.txt").symlink_to("elsewhere")
    with pytest.raises(RewardParseError, match="link"):
        read_rewards(tmp_path)


def test_a_pipe_keeps_nobody_waiting(tmp_path):
    os.mkfifo(tmp_path / "reward.txt")
    with pytest.raises(RewardParseError, match="no regular file"):
        read_rewards(tmp_path)


def test_a_folder_is_no_reward(tmp_path):
    (tmp_path / "reward.json").mkdir()
    with pytest.raises(RewardError):
        read_rewards(tmp_path)


def test_a_huge_file_is_refused_unread(tmp_path):
    with (tmp_path / "reward.txt").open("wb") as file:
        file.truncate(MAX_REWARD_BYTES * 1000)
    with pytest.raises(RewardParseError, match="larger than 1 MiB"):
        read_rewards(tmp_path)


def test_the_one_reward_is_named_reward_or_stands_alone(tmp_path):
    assert read(tmp_path, reward_json='{"reward": 0.5, "style": 1}').reward == 0.5
    assert read(tmp_path, reward_json='{"style": 1}').reward == 1.0
    assert read(tmp_path, reward_json='{"style": 1, "speed": 0}').reward is None


def test_only_trials_without_a_reward_are_run_again():
    done = {"t0": 1.0, "t1": 0.0, "t2": None}
    assert [name for name, reward in done.items() if needs_rerun(reward)] == ["t2"]


@pytest.mark.parametrize("name", ["r{}", "r"])
def test_more_names_than_anybody_reads_are_refused_at_once(tmp_path, name):
    many = ",".join(f'"{name.format(number)}":1' for number in range(90_000))
    began = time.thread_time()
    with pytest.raises(RewardParseError, match="more than 1000 names"):
        read(tmp_path, reward_json=f"{{{many}}}")
    assert time.thread_time() - began < 5
