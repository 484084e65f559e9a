"""In which order the examples of several environments come."""

from __future__ import annotations

from collections.abc import Sequence


def interleave(
    sizes: Sequence[int], weights: Sequence[float] | None = None, *, limit: int | None = None
) -> list[tuple[int, int]]:
    """Return (environment, example) pairs, both from 0, each environment's examples in their own order.

    With weights, after every prefix each environment has had its share to within one example, and the
    first environment to run out ends the list. Without, they take turns, and one that runs out leaves
    its turns to the others. A limit cuts the list and changes nothing before the cut.
    """
    most = sum(sizes) if limit is None else min(limit, sum(sizes))
    order: list[tuple[int, int]] = []
    given = [0] * len(sizes)
    while len(order) < most:
        if weights is None:
            left = [i for i, size in enumerate(sizes) if given[i] < size]
            chosen = min(left, key=lambda i: (given[i], i))
        else:
            total = sum(weights)
            due = [
                weight / total * (len(order) + 1) - done for weight, done in zip(weights, given, strict=True)
            ]
            chosen = max(range(len(sizes)), key=lambda i: (due[i], -i))
            if given[chosen] == sizes[chosen]:
                break
        order.append((chosen, given[chosen]))
        given[chosen] += 1
    return order
