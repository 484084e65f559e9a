"""Level 3: several steps, a table or a stack."""

from __future__ import annotations

from castform_env_code.tasks.draws import LETTERS, numbers, sentence, two_numbers, word, words
from castform_env_code.tasks.task import task


@task(3, lambda rng: (sentence(rng),), [("",), ("a a b",)])
def word_counts(text: str) -> dict[str, int]:
    """Return how often each word of the text occurs; words are separated by blanks."""
    counts: dict[str, int] = {}
    for each in text.split():
        counts[each] = counts.get(each, 0) + 1
    return counts


@task(3, lambda rng: (word(rng, 12, "aab"),), [("",), ("aaab",), ("abc",)])
def run_lengths(text: str) -> list[tuple[str, int]]:
    """Return the runs of equal characters in order, each as a tuple of the character and how long the run is."""
    runs: list[tuple[str, int]] = []
    for character in text:
        if runs and runs[-1][0] == character:
            runs[-1] = (character, runs[-1][1] + 1)
        else:
            runs.append((character, 1))
    return runs


@task(
    3,
    lambda rng: (
        word(rng, 8, "()[]")
        if rng.random() < 0.5
        else rng.choice(["()", "[()]", "()[]", "[[]]()", "([][])"]) * rng.randint(1, 2),
    ),
    [("",), ("(]",), ("(()",), ("[()]",)],
)
def is_balanced(text: str) -> bool:
    """Return True if every bracket of the text, which holds only ( ) [ and ], is closed by its own kind in order."""
    open_ones: list[str] = []
    for bracket in text:
        if bracket in "([":
            open_ones.append(bracket)
        elif not open_ones or open_ones.pop() + bracket not in ("()", "[]"):
            return False
    return not open_ones


@task(3, lambda rng: (word(rng, 12), rng.randint(0, 25)), [("", 3), ("xyz", 3)])
def shift_letters(text: str, places: int) -> str:
    """Return the text, which holds only a to z, with each letter that many places further in the alphabet; after z comes a again."""
    return "".join(chr((ord(letter) - 97 + places) % 26 + 97) for letter in text)


@task(
    3,
    lambda rng: (
        [[rng.randint(0, 9) for _ in range(width)] for _ in range(rng.randint(1, 4))]
        if (width := rng.randint(1, 4))
        else [],
    ),
    [([[1]],), ([[1, 2], [3, 4]],)],
)
def transpose(rows: list[list[int]]) -> list[list[int]]:
    """Return a table with rows and columns exchanged; all rows are equally long and there is at least one."""
    return [list(column) for column in zip(*rows, strict=True)]


@task(3, lambda rng: (sorted(numbers(rng)), sorted(numbers(rng))), [([], []), ([1], [])])
def merge_sorted(first: list[int], second: list[int]) -> list[int]:
    """Return one list in rising order with all numbers of two lists that are in rising order."""
    return sorted(first + second)


@task(3, lambda rng: (rng.randint(1, 3999),), [(4,), (9,), (1990,), (3999,)])
def to_roman(n: int) -> str:
    """Return n, between 1 and 3999, as a Roman numeral."""
    result = ""
    values = (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1)
    signs = ("M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IV", "I")
    for value, sign in zip(values, signs, strict=True):
        result += sign * (n // value)
        n %= value
    return result


@task(3, lambda rng: (rng.randint(0, 5000), rng.randint(2, 9)), [(0, 2), (8, 2)])
def in_base(n: int, base: int) -> str:
    """Return n, which is not negative, written in a base between 2 and 9."""
    digits = ""
    while n:
        digits = str(n % base) + digits
        n //= base
    return digits or "0"


@task(3, lambda rng: (numbers(rng, -9, 9), rng.randint(-6, 10)), [([], 0), ([3, 3], 6), ([3], 6)])
def pair_with_sum(numbers: list[int], total: int) -> bool:
    """Return True if two numbers at different places of the list have that total, else False."""
    return any(a + b == total for i, a in enumerate(numbers) for b in numbers[i + 1 :])


@task(3, lambda rng: ([rng.randint(-9, 9), *numbers(rng, -9, 9)],), [([-3],), ([2, -1, 2],)])
def best_stretch(numbers: list[int]) -> int:
    """Return the largest sum that neighbouring numbers of the list have together; at least one has to be taken."""
    best = running = numbers[0]
    for n in numbers[1:]:
        running = max(n, running + n)
        best = max(best, running)
    return best


@task(3, lambda rng: (words(rng),), [([],), (["noon", "a"],)])
def group_by_length(words: list[str]) -> dict[int, list[str]]:
    """Return the words by their length, those of one length in their order."""
    groups: dict[int, list[str]] = {}
    for each in words:
        groups.setdefault(len(each), []).append(each)
    return groups


@task(3, lambda rng: (numbers(rng, 0, 5),), [([],), ([2, 2, 1],)])
def most_common(items: list[int]) -> list[int]:
    """Return the numbers that occur most often, in rising order; nothing for an empty list."""
    most = max((items.count(item) for item in items), default=0)
    return sorted({item for item in items if items.count(item) == most})


@task(3, lambda rng: (numbers(rng), rng.randint(1, 4)), [([], 2), ([1, 2, 3], 3)])
def in_chunks(items: list[int], size: int) -> list[list[int]]:
    """Return the items in lists of that size, in order; the last one may be shorter."""
    return [items[start : start + size] for start in range(0, len(items), size)]


@task(3, lambda rng: (rng.randint(2, 400),), [(2,), (49,), (97,), (360,)])
def prime_factors(n: int) -> list[int]:
    """Return the prime factors of n, which is at least 2, in rising order, each as often as it divides n."""
    factors, divisor = [], 2
    while n > 1:
        while n % divisor == 0:
            factors.append(divisor)
            n //= divisor
        divisor += 1
    return factors


@task(3, lambda rng: (rng.randint(0, 86399),), [(0,), (59,), (3600,), (86399,)])
def clock_time(seconds: int) -> str:
    """Return the seconds since midnight as hours, minutes and seconds of two digits each, such as 07:05:09."""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


@task(3, lambda rng: (word(rng, 7, "abcd"), word(rng, 7, "abcd")), [("", ""), ("abc", "abc"), ("abc", "")])
def common_start(first: str, second: str) -> str:
    """Return the longest text that both texts begin with."""
    length = 0
    while length < min(len(first), len(second)) and first[length] == second[length]:
        length += 1
    return first[:length]


@task(3, lambda rng: two_numbers(rng, 1, 60), [(6, 4), (1, 1)])
def common_multiple(a: int, b: int) -> int:
    """Return the smallest number above zero that both a and b, which are above zero, divide."""
    multiple = a
    while multiple % b:
        multiple += a
    return multiple


@task(
    3,
    lambda rng: (
        ("".join(rng.sample(LETTERS, 5)), "".join(rng.sample(LETTERS[:8], 5)))
        if rng.random() < 0.4
        else (w := word(rng, 6, "abc"), "".join(rng.sample(w, len(w))))
    ),
    [("", ""), ("ab", "ba"), ("aab", "abb")],
)
def same_letters(first: str, second: str) -> bool:
    """Return True if both texts hold the same letters, each equally often, else False."""
    return sorted(first) == sorted(second)
