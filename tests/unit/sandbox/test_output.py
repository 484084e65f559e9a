"""The tail of what was written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from castform.sandbox.output import TailBuffer


@given(chunks=st.lists(st.binary(max_size=40)), limit=st.integers(0, 60))
def test_the_tail_and_what_came_before_it_are_all_that_was_written(chunks, limit):
    buffer = TailBuffer(limit)
    for chunk in chunks:
        buffer.add(chunk)
    whole = b"".join(chunks)
    assert buffer.tail == (whole[-limit:] if limit else b"")
    assert buffer.seen == len(whole)
    assert buffer.dropped + len(buffer.tail) == len(whole)
