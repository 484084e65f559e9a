"""What tools return, however odd or large, as the content of a message."""

from __future__ import annotations

import asyncio
import json
import math
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmax.envs.tool_results import NOTE_CHARS, tool_content
from benchmax.envs.tools import FunctionTool

BIG = 100_000_000


@pytest.mark.parametrize(
    ("result", "content"),
    [
        (b"caf\xc3\xa9", "café"),
        (bytearray(b"text"), "text"),
        (memoryview(b"text"), "text"),
        (b"", ""),
        (b"\xff\xfe", "[2 bytes of binary data]"),
        (b"a\0b", "[3 bytes of binary data]"),
        (b"\x89PNG\r\n" + bytes(2000), "[2,006 bytes of binary data]"),
        ({"raw": b"ab", "bin": b"\xff"}, '{"raw":"ab","bin":"[1 bytes of binary data]"}'),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        ({"a": [math.nan, math.inf, 1.5]}, '{"a":["NaN","Infinity",1.5]}'),
        ("half \ud800 pair \ud83d\ude00", "half \ufffd pair 😀"),
        ({"k": "\udc00"}, '{"k":"\ufffd"}'),
    ],
)
def test_bytes_odd_numbers_and_broken_text_can_be_sent(result: object, content: str) -> None:
    assert tool_content(result) == content
    assert tool_content(result, max_chars=1000) == content
    json.dumps(content, allow_nan=False).encode()


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_text_is_cut_once_that_makes_it_shorter(over: int) -> None:
    text = "é" * (1000 + NOTE_CHARS + over)
    content = tool_content(text, max_chars=1000)
    if over <= 0:
        assert content == text
    else:
        assert content == f"{'é' * 1000}\n[cut: the first 1,000 characters of 1,121 characters]"
    assert tool_content(content, max_chars=1000) == content


def test_text_of_a_hundred_megabytes_is_cut_without_a_copy_of_it() -> None:
    text = "x" * BIG
    tracemalloc.start()
    began = time.thread_time()
    content = tool_content(text, max_chars=50_000)
    spent = time.thread_time() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert content == "x" * 50_000 + "\n[cut: the first 50,000 characters of 100,000,000 characters]"
    assert peak < 1_000_000 and spent < 0.1


def test_bytes_and_structures_of_a_hundred_megabytes_are_read_only_as_far_as_they_are_kept() -> None:
    data, binary = bytes([97]) * BIG, bytes(BIG)
    structure = {"rows": [{"text": "y" * 1000, "n": 1}] * 100_000, "numbers": list(range(1000)) * 1000}
    tracemalloc.start()
    began = time.thread_time()
    assert tool_content(data, max_chars=9) == "aaaaaaaaa\n[cut: the first 9 characters of 100,000,000 bytes]"
    assert tool_content(binary, max_chars=9) == "[100,000,000 bytes of binary data]"
    content = tool_content(structure, max_chars=2_000)
    spent = time.thread_time() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    kept = json.dumps({"rows": structure["rows"][:3]}, separators=(",", ":"))[:2_000]
    assert content == f"{kept}\n[cut: the first 2,000 characters of a longer result]"
    assert peak < 1_000_000 and spent < 0.2


def test_bytes_cut_inside_a_character_are_text_still() -> None:
    text = "日本" * 500
    content = tool_content(text.encode(), max_chars=100)
    assert content == text[:100] + "\n[cut: the first 100 characters of 3,000 bytes]"
    with_half = tool_content(text.encode()[:-1])
    assert with_half == "[2,999 bytes of binary data]"


def test_text_parts_share_the_limit_and_images_have_none() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 5000}}
    parts = [{"type": "text", "text": "a" * 150}, image, {"type": "text", "text": "b" * 500, "extra": 1}]
    first, second, third = tool_content(parts, max_chars=200)
    assert first is parts[0] and second is image
    assert third == {
        "type": "text",
        "text": "b" * 50 + "\n[cut: the first 50 characters of 500 characters]",
        "extra": 1,
    }
    assert tool_content([{"type": "text", "text": "\ud800"}]) == [{"type": "text", "text": "\ufffd"}]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=9), inner, max_size=6),
    max_leaves=30,
)


@given(VALUES, st.integers(1, 300))
@settings(deadline=None, max_examples=60)
def test_any_result_is_within_its_limit_and_begins_like_the_whole(value: Any, limit: int) -> None:
    whole, content = tool_content(value), tool_content(value, max_chars=limit)
    assert isinstance(whole, str) and isinstance(content, str)
    content.encode()
    if "\n[cut: " in content and content != whole:
        kept = content.rpartition("\n[cut: ")[0]
        assert len(kept) <= limit and whole.startswith(kept)
    else:
        assert content == whole and len(content) <= limit + NOTE_CHARS


async def test_a_tools_own_error_is_cut_too_and_the_loop_goes_on() -> None:
    def fail() -> None:
        raise OSError("e" * 10_000_000)

    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    content = await FunctionTool(function=fail).call({}, in_thread=True, max_chars=100)
    ticking.cancel()
    assert (
        content
        == "Error: OSError: " + "e" * 84 + "\n[cut: the first 100 characters of 10,000,016 characters]"
    )
    assert ticks > 1
