"""Level 1: one expression does it."""

from __future__ import annotations

from castform_env_code.tasks.draws import number, numbers, sentence, two_numbers, word, words
from castform_env_code.tasks.task import task


@task(1, number, [(0,), (-7,)])
def triple(n: int) -> int:
    """Return three times n."""
    return 3 * n


@task(1, number, [(0,)])
def square_plus_one(n: int) -> int:
    """Return the square of n plus 1."""
    return n * n + 1


@task(1, two_numbers, [(0, 0)])
def add(a: int, b: int) -> int:
    """Return the sum of a and b."""
    return a + b


@task(1, two_numbers, [(0, 0), (3, 9)])
def subtract(a: int, b: int) -> int:
    """Return a minus b."""
    return a - b


@task(1, two_numbers, [(0, 5), (-3, -4)])
def multiply(a: int, b: int) -> int:
    """Return the product of a and b."""
    return a * b


@task(1, number, [(0,), (-1,), (7,)])
def is_even(n: int) -> bool:
    """Return True if n is even, else False."""
    return n % 2 == 0


@task(1, number, [(0,), (1,), (-1,)])
def is_negative(n: int) -> bool:
    """Return True if n is below zero, else False."""
    return n < 0


@task(1, two_numbers, [(4, 4), (-2, -9)])
def larger(a: int, b: int) -> int:
    """Return the larger one of a and b."""
    return max(a, b)


@task(1, two_numbers, [(4, 4), (-2, -9)])
def distance(a: int, b: int) -> int:
    """Return how far a and b are apart, never below zero."""
    return abs(a - b)


@task(1, lambda rng: (rng.randint(0, 999),), [(0,), (10,), (99,)])
def last_digit(n: int) -> int:
    """Return the last decimal digit of n, which is not negative."""
    return n % 10


@task(1, lambda rng: (numbers(rng),), [([],)])
def sum_of_list(numbers: list[int]) -> int:
    """Return the sum of a list of numbers, 0 for an empty one."""
    return sum(numbers)


@task(1, lambda rng: ([rng.randint(-9, 9), *numbers(rng)],), [([5],)])
def first_item(items: list[int]) -> int:
    """Return the first item of a list that is not empty."""
    return items[0]


@task(1, lambda rng: ([*numbers(rng), rng.randint(-9, 9)],), [([5],)])
def last_item(items: list[int]) -> int:
    """Return the last item of a list that is not empty."""
    return items[-1]


@task(1, lambda rng: ([rng.randint(-9, 9), *numbers(rng)],), [([-5],), ([3, 3],)])
def smallest(numbers: list[int]) -> int:
    """Return the smallest number of a list that is not empty."""
    return min(numbers)


@task(1, lambda rng: ([rng.randint(-9, 9), *numbers(rng)],), [([4],)])
def spread(numbers: list[int]) -> int:
    """Return the largest minus the smallest number of a list that is not empty."""
    return max(numbers) - min(numbers)


@task(1, lambda rng: (numbers(rng),), [([],), ([1],)])
def count_items(items: list[int]) -> int:
    """Return how many items a list has."""
    return len(items)


@task(1, lambda rng: (word(rng),), [("",), ("ab",)])
def reverse_text(text: str) -> str:
    """Return the text backwards."""
    return text[::-1]


@task(1, lambda rng: (sentence(rng),), [("",), ("Already UP",)])
def shout(text: str) -> str:
    """Return the text in upper case with an exclamation mark at the end."""
    return text.upper() + "!"


@task(1, lambda rng: (rng.choice(["Ada", "Bo", "you"]) + word(rng),), [("",)])
def greet(name: str) -> str:
    """Return "Hello, " followed by the name and a full stop."""
    return "Hello, " + name + "."


@task(1, lambda rng: (word(rng, 5), rng.randint(0, 4)), [("ab", 0)])
def repeat_text(text: str, times: int) -> str:
    """Return the text that many times in a row, without anything between."""
    return text * times


@task(1, lambda rng: (numbers(rng),), [([],), ([1, 2],)])
def reverse_list(items: list[int]) -> list[int]:
    """Return a new list with the items in the opposite order."""
    return items[::-1]


@task(1, lambda rng: (numbers(rng),), [([],), ([3, 1, 2],)])
def sort_falling(numbers: list[int]) -> list[int]:
    """Return a new list with the numbers in falling order."""
    return sorted(numbers, reverse=True)


@task(1, lambda rng: (sentence(rng),), [("",), ("one",)])
def count_words(text: str) -> int:
    """Return how many words the text has; words are separated by blanks."""
    return len(text.split())


@task(1, lambda rng: (words(rng),), [([],), (["a"],)])
def join_with_dashes(words: list[str]) -> str:
    """Return the words joined by dashes."""
    return "-".join(words)


@task(1, lambda rng: (rng.randint(-40, 110),), [(0,), (100,)])
def to_fahrenheit(celsius: int) -> float:
    """Return a temperature in degrees Celsius as degrees Fahrenheit: times 9, by 5, plus 32."""
    return celsius * 9 / 5 + 32


@task(1, lambda rng: two_numbers(rng, 1, 30), [(1, 1)])
def rectangle_area(width: int, height: int) -> int:
    """Return the area of a rectangle."""
    return width * height


@task(1, lambda rng: two_numbers(rng, 1, 30), [(1, 1)])
def rectangle_outline(width: int, height: int) -> int:
    """Return the length of the outline of a rectangle."""
    return 2 * (width + height)
