"""Level 2: a loop, a condition or a comprehension."""

from __future__ import annotations

from castform_env_code.tasks.draws import WORDS, number, numbers, sentence, two_numbers, word, words
from castform_env_code.tasks.task import task


@task(2, lambda rng: (numbers(rng),), [([],), ([2],), ([1, 3],)])
def count_even(numbers: list[int]) -> int:
    """Return how many of the numbers are even."""
    return sum(1 for n in numbers if n % 2 == 0)


@task(2, lambda rng: (numbers(rng),), [([],), ([-1, -2],)])
def keep_positive(numbers: list[int]) -> list[int]:
    """Return the numbers above zero, in their order."""
    return [n for n in numbers if n > 0]


@task(2, lambda rng: (numbers(rng),), [([],), ([3],)])
def sum_of_squares(numbers: list[int]) -> int:
    """Return the sum of the squares of the numbers."""
    return sum(n * n for n in numbers)


@task(2, lambda rng: (word(rng, 14),), [("",), ("AEIOU",), ("rhythm",)])
def count_vowels(text: str) -> int:
    """Return how many of the characters are one of a, e, i, o, u, in lower or upper case."""
    return sum(1 for c in text.lower() if c in "aeiou")


@task(
    2,
    lambda rng: (rng.choice([*WORDS, word(rng, 4, "ab"), word(rng, 3, "xy")]),),
    [("",), ("abba",), ("ab",)],
)
def reads_the_same(text: str) -> bool:
    """Return True if the text is the same when read backwards, else False."""
    return text == text[::-1]


@task(2, lambda rng: (rng.randint(0, 12),), [(0,), (1,)])
def factorial(n: int) -> int:
    """Return the product of all whole numbers from 1 to n; 1 for n = 0."""
    result = 1
    for factor in range(2, n + 1):
        result *= factor
    return result


@task(2, lambda rng: (rng.randint(0, 100_000),), [(0,), (9,), (1000,)])
def digit_sum(n: int) -> int:
    """Return the sum of the decimal digits of n, which is not negative."""
    return sum(int(digit) for digit in str(n))


@task(2, lambda rng: (numbers(rng, 0, 6),), [([],), ([1, 1, 1],), ([2, 1, 2],)])
def without_repeats(items: list[int]) -> list[int]:
    """Return the items without repeats, each one where it occurs first."""
    seen: list[int] = []
    for item in items:
        if item not in seen:
            seen.append(item)
    return seen


@task(2, lambda rng: (words(rng),), [([],), (["a", "sky"],)])
def longest_word(words: list[str]) -> str:
    """Return the longest word, of several the first; "" for an empty list."""
    return max(words, key=len, default="")


@task(2, lambda rng: (sentence(rng),), [("",), ("one",)])
def initials(text: str) -> str:
    """Return the first letters of the words of the text, in upper case, without anything between."""
    return "".join(word[0].upper() for word in text.split())


@task(2, lambda rng: (rng.randint(1, 60),), [(1,), (2,), (15,), (9,), (10,)])
def fizz(n: int) -> str:
    """Return "fizz" if n is divisible by 3, "buzz" if it is divisible by 5, "fizzbuzz" if by both, else n as text."""
    return ("fizz" * (n % 3 == 0) + "buzz" * (n % 5 == 0)) or str(n)


@task(2, lambda rng: (numbers(rng), rng.randint(-5, 5)), [([], 3)])
def add_to_each(numbers: list[int], amount: int) -> list[int]:
    """Return a new list with the amount added to each number."""
    return [n + amount for n in numbers]


@task(2, lambda rng: (numbers(rng),), [([],), ([5],)])
def running_sums(numbers: list[int]) -> list[int]:
    """Return the sums of the first number, of the first two, of the first three, and so on."""
    sums, total = [], 0
    for n in numbers:
        total += n
        sums.append(total)
    return sums


@task(2, lambda rng: (rng.randint(0, 200),), [(0,), (1,), (2,), (49,), (97,)])
def is_prime(n: int) -> bool:
    """Return True if n is a prime number, else False."""
    if n < 2:
        return False
    return all(n % d for d in range(2, int(n**0.5) + 1))


@task(2, lambda rng: two_numbers(rng, 1, 120), [(7, 7), (1, 9)])
def common_divisor(a: int, b: int) -> int:
    """Return the largest whole number that divides both a and b, which are above zero."""
    while b:
        a, b = b, a % b
    return a


@task(2, lambda rng: (sentence(rng), rng.choice("aeiorst")), [("", "a")])
def count_letter(text: str, letter: str) -> int:
    """Return how often the letter occurs in the text."""
    return text.count(letter)


@task(2, lambda rng: (rng.randint(0, 20),), [(0,), (1,), (2,)])
def fibonacci(n: int) -> int:
    """Return the Fibonacci number with index n: 0, 1, 1, 2, 3, 5, ... for n = 0, 1, 2, 3, 4, 5, ..."""
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@task(2, lambda rng: (numbers(rng), numbers(rng)), [([], [1]), ([1], [1])])
def in_both(first: list[int], second: list[int]) -> list[int]:
    """Return the numbers that occur in both lists, each once, in rising order."""
    return sorted(set(first) & set(second))


@task(2, lambda rng: (number(rng, -30, 30)[0], *sorted(two_numbers(rng, -15, 15))), [(5, 5, 5)])
def clamp(n: int, low: int, high: int) -> int:
    """Return n, but low where it is below low and high where it is above high."""
    return max(low, min(n, high))


@task(2, lambda rng: (numbers(rng, most=8),), [([],), ([1],), ([1, 2, 3],)])
def every_second(items: list[int]) -> list[int]:
    """Return the first item, the third, the fifth and so on."""
    return items[::2]


@task(2, lambda rng: (rng.randint(0, 7),), [(0,), (1,)])
def stars(n: int) -> list[str]:
    """Return n lines of stars: the first has one star, the second two, and so on."""
    return ["*" * width for width in range(1, n + 1)]
