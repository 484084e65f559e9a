"""Frames survive any cut; junk and giants are told from them."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform.workers import protocol
from castform.workers.protocol import FrameReader, FrameTooLargeError, ProtocolError, encode_frame

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
messages = st.dictionaries(st.text(), json_values, max_size=4).map(lambda fields: {**fields, "t": "x"})


@settings(deadline=None, max_examples=25)
@given(sent=st.lists(messages, max_size=5), cuts=st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_messages_come_out_as_they_went_in_however_the_bytes_are_cut(sent, cuts):
    data = b"".join(map(encode_frame, sent))
    reader, got, place = FrameReader(), [], 0
    while place < len(data):
        size = cuts[place % len(cuts)]
        got += reader.feed(data[place : place + size])
        place += size
    assert got == sent


def test_a_length_beyond_the_limit_is_no_frame():
    with pytest.raises(ProtocolError, match="a frame of 1,347,375,956 bytes, at most 67,108,864"):
        list(FrameReader().feed(b"POST / HTTP/1.1"))


@pytest.mark.parametrize("body", [b"[1]", b'{"t": 1}', b"{}", b"nonsense", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_message_is_refused(body):
    with pytest.raises(ProtocolError, match="a frame that is not"):
        list(FrameReader().feed(struct.pack("!I", len(body)) + body))


def test_what_is_read_before_the_junk_is_not_lost():
    reader = FrameReader()
    frames = reader.feed(encode_frame({"t": "good"}) + struct.pack("!I", 4) + b"junk")
    assert next(frames) == {"t": "good"}
    with pytest.raises(ProtocolError):
        next(frames)


def test_the_largest_message_fits_and_one_byte_more_does_not(monkeypatch):
    monkeypatch.setattr(protocol, "MAX_FRAME_BYTES", 20)
    assert len(encode_frame({"t": "x" * 12})) == 4 + 20
    with pytest.raises(FrameTooLargeError, match="a message of 21 bytes; at most 20 fit"):
        encode_frame({"t": "x" * 13})


def test_objects_take_the_forms_of_the_run_store():
    class Odd:
        def __str__(self):
            return "odd"

    body = encode_frame({"t": "x", "tuple": (1, 2), "odd": Odd(), "nan": float("inf")})[4:]
    assert json.loads(body) == {"t": "x", "tuple": [1, 2], "odd": "odd", "nan": float("inf")}
