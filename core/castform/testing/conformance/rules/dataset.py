"""Rules of the dataset: it loads, it is the same every time and everywhere, and its size can be bounded."""

from __future__ import annotations

from collections.abc import Sequence

from castform.errors import CastformError
from castform.plugins.fingerprints import hash_example
from castform.testing.conformance.examined import Examined
from castform.testing.conformance.rule import Breach, NotCheckedError

Marks = Sequence[tuple[str, str]]
"""Id and hash of id and payload of each example, in order."""

ELSEWHERE = "in a process with another PYTHONHASHSEED"
NO_RANDOMNESS = (
    "make ids and payloads from the row alone (canonical_example_id(row), random.Random(seed)); no clock, no uuid, "
    "no global random, no order of a set or of hash()"
)


def check_loads(examined: Examined) -> list[Breach]:
    """Both splits can be loaded, or say themselves that they are empty."""
    try:
        examined.examples  # noqa: B018 - loaded here, kept for the rules that follow
    except CastformError as error:
        return [Breach(message=str(error), way_out=error.hint or "mend create_dataset")]
    return []


def check_identity(examined: Examined) -> list[Breach]:
    """Ids and payloads are the same over two builds and in another process."""
    first = _marks_of(examined)
    second = _marks_of_second_build(examined)
    breaches = _compare_identity(first, second, "built a second time")
    if breaches:
        return breaches
    other = examined.other_process
    if other.error:
        return [
            Breach(
                message=f"a fresh process cannot load the environment: {other.error}",
                way_out="what the environment needs must come from its id and its arguments alone",
            )
        ]
    return _compare_identity(first, other.marks.get(examined.options.split, ()), ELSEWHERE)


def check_order(examined: Examined) -> list[Breach]:
    """Examples come in the same order over two builds and in another process."""
    first = [id for id, _ in _marks_of(examined)]
    again = [id for id, _ in _marks_of_second_build(examined)]
    breaches = _compare_order(first, again, "built a second time")
    if breaches or examined.other_process.error:
        return breaches
    there = [id for id, _ in examined.other_process.marks.get(examined.options.split, ())]
    return _compare_order(first, there, ELSEWHERE)


def _compare_order(first: Sequence[str], ids: Sequence[str], where: str) -> list[Breach]:
    if ids == first or sorted(ids) != sorted(first):  # others of them are the rule stable_identity's
        return []
    place = next(i for i, (a, b) in enumerate(zip(first, ids, strict=True)) if a != b)
    return [
        Breach(
            message=f"{where}, the examples come in another order, from place {place + 1} on",
            way_out="sort them, or shuffle with random.Random(seed); the order of a set is no order",
            example_id=first[place],
        )
    ]


def check_max_examples(examined: Examined) -> list[Breach]:
    """The first n examples are the beginning of the whole, whatever n."""
    whole = _marks_of(examined)
    breaches: list[Breach] = []
    for count in sorted({1, max(1, len(whole) // 2)}):
        few = examined.run(_count_examples(examined, count))
        if len(few) > count:
            breaches.append(
                Breach(
                    message=f"create_dataset(max_examples={count}) gave {len(few)} examples",
                    way_out="stop at max_examples: Dataset(rows[:max_examples]), JsonlDataset(max_examples=…)",
                )
            )
        elif few != list(whole[:count]):
            breaches.append(
                Breach(
                    message=f"the {len(few)} examples of max_examples={count} are not the first of the "
                    f"{len(whole)} of max_examples={examined.options.examples}",
                    way_out="choose and shuffle first, with a seed, then cut; so that a smaller run is a part of "
                    "a larger one",
                    example_id=few[0][0] if few else None,
                )
            )
    return breaches[:1]


def _marks_of(examined: Examined) -> Marks:
    return [(example.id, hash_example(example)) for example in examined.need_examples()]


def _marks_of_second_build(examined: Examined) -> Marks:
    async def load() -> Marks:
        try:
            environment = examined.subject.make()
        except Exception as error:
            raise NotCheckedError(f"a second environment cannot be made ({error})") from error
        try:
            again = await examined.load(examined.options.split, environment=environment)
        finally:
            await environment.aclose()
        return [(example.id, hash_example(example)) for example in again]

    return examined.run(load())


async def _count_examples(examined: Examined, count: int) -> Marks:
    dataset = await examined.environment.create_dataset(
        examined.options.split, examined.subject.base_dir, max_examples=count
    )
    return [(example.id, hash_example(example)) for example in dataset]


def _compare_identity(first: Marks, second: Marks, where: str) -> list[Breach]:
    ids, others = [id for id, _ in first], [id for id, _ in second]
    if sorted(ids) != sorted(others):
        missing = [id for id in ids if id not in set(others)]
        return [
            Breach(
                message=f"{where}, {len(missing) or abs(len(ids) - len(others))} of {len(ids)} examples have other ids",
                way_out=NO_RANDOMNESS,
                example_id=missing[0] if missing else None,
            )
        ]
    known = dict(second)
    changed = [id for id, mark in first if known[id] != mark]
    if changed:
        return [
            Breach(
                message=f"{where}, {len(changed)} of {len(ids)} examples have the same id and another payload",
                way_out=NO_RANDOMNESS,
                example_id=changed[0],
            )
        ]
    return []
