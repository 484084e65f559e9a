from __future__ import annotations

import torch

from castform_trainer.engines.transformers_cache import SlotCache, WritePlan
from castform_trainer.engines.transformers_prefix import PrefixCache, shared_length


def fill(cache: SlotCache, slot: int, length: int, value: float) -> None:
    cache.reserve(slot + 1, length)
    cache.plan = WritePlan(
        first_slot=slot,
        rows=1,
        read_length=length,
        source_row=torch.zeros(length, dtype=torch.long),
        source_token=torch.arange(length),
        position=torch.arange(length),
    )
    states = torch.full((1, 2, length, 4), value)
    cache.update(states, states + 0.5, 0)


def test_growing_keeps_what_is_there() -> None:
    cache = SlotCache()
    fill(cache, 0, 10, 1.0)
    cache.reserve(5, 1000)
    keys, values = cache.take_snapshot(0, 10)[0]
    assert keys.unique().tolist() == [1.0]
    assert values.unique().tolist() == [1.5]


def test_a_row_moves_and_comes_back_from_a_snapshot() -> None:
    cache = SlotCache()
    for slot in range(3):
        fill(cache, slot, 6 + slot, float(slot))
    cache.copy_row(2, [0], 8)
    assert cache.take_snapshot(0, 8)[0][0].unique().tolist() == [2.0]
    kept = cache.take_snapshot(1, 7)
    other = SlotCache()
    other.restore(3, kept, 5)
    assert other.take_snapshot(3, 5)[0][1].unique().tolist() == [1.5]
    assert other.bytes_per_token() == 2 * 2 * 4 * 4


def snapshot(length: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.zeros(2, length, 4), torch.zeros(2, length, 4))]


def test_the_longest_shared_prefix_wins_and_one_token_is_always_left() -> None:
    cache = PrefixCache(1 << 20)
    cache.add(range(20), snapshot(20))
    cache.add([*range(30), 99], snapshot(31))
    found = cache.find(range(40))
    assert found is not None
    assert found[1] == 30
    exact = cache.find(range(30))
    assert exact is not None
    assert exact[1] == 29
    assert cache.find([5, *range(40)]) is None


def test_an_entry_that_another_continues_is_dropped() -> None:
    cache = PrefixCache(1 << 20)
    cache.add(range(20), snapshot(20))
    cache.add(range(25), snapshot(25))
    assert len(cache) == 1


def test_the_memory_bound_drops_the_least_recently_used() -> None:
    one = sum(a.nbytes + b.nbytes for a, b in snapshot(20))
    cache = PrefixCache(2 * one)
    for start in (100, 200):
        cache.add(range(start, start + 20), snapshot(20))
    cache.find(range(100, 130))
    cache.add(range(300, 320), snapshot(20))
    assert cache.find(range(100, 130)) is not None
    assert cache.find(range(200, 230)) is None
    cache.clear()
    assert cache.find(range(300, 330)) is None


def test_shared_length_counts_leading_equals() -> None:
    assert shared_length((1, 2, 3), (1, 2, 3, 4)) == 3
    assert shared_length((1, 2, 3), (1, 9, 3)) == 1
    assert shared_length((), (1,)) == 0
