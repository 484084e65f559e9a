"""Values of nobody: made-up names and streets, reserved domains and numbers, cards that cannot exist.

Each split draws from parts of its own, so that no value of one can turn up in another:
- names, streets and towns are invented words, in three lists that share none;
- addresses of mail end in example.com, .net or .org (RFC 2606);
- phone numbers are 555-0100 to 555-0199, which North America keeps for fiction;
- card numbers lie in the ranges that payment companies use for tests, with a wrong check digit.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What the values of one split are made of."""

    first_names: tuple[str, ...]
    last_names: tuple[str, ...]
    streets: tuple[str, ...]
    towns: tuple[str, ...]
    lines: range
    """Last two digits of phone numbers."""
    card_remainder: int
    """Card numbers of the split, read as integers up to the check digit, leave this when divided by 3."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


PARTS = {
    "train": Parts(
        first_names=_words(
            "Tavrin Ollibeth Marenka Joswick Fennella Bramley Corvane Elspira Haldor Ysolde Perrin Quilla "
            "Dorsey Lunetta Wendrick Amabelle Rusko Tilda Orvin Cassimer Jorunn Nellwyn Sabrielle Gideo "
            "Martisha Ellory Brannock Vesper Ilka Domarin Tamsine Rowel"
        ),
        last_names=_words(
            "Quillmarsh Dunweather Pellagrove Ashwhistle Corbinette Thistlecombe Marrowfield Oakenshaw "
            "Vandermoss Brindlewood Sorrelby Kettlewright Hollowmere Fernaby Drakestone Wimblethorn "
            "Larkhollow Pennygale Stonebrook Mirabellow Osterfell Gallowglen Tanbark Rooksby Hartlequist "
            "Underbough Skyfeather Nightingrove Copperwyn Bellweather Greymantle Farrowdale"
        ),
        streets=_words(
            "Fernwhistle Quarrelby Mossgate Lanternwick Bluethorn Kestrelmoor Dapplewood Orchardine "
            "Silverbeck Tumblestone Wrenhollow Candleford Marblegate Pinecrest Foxlantern Harrowmill"
        ),
        towns=_words("Ambleford Dunmarrow Pellworth Ostermouth Larkenfield Brindleport Corrindale Vexley"),
        lines=range(60),
        card_remainder=0,
    ),
    "validation": Parts(
        first_names=_words("Zorabel Hendrowen Lioness Pascoe Meriwen Ottavio Birgitte Calder"),
        last_names=_words(
            "Wetherspan Ironleaf Dovecastle Mapplethorn Zellowick Crickhaven Ebbinghall Yarrowby"
        ),
        streets=_words("Swallowtail Gooseberry Ironbridge Willowmarch Teasel Cobblegate"),
        towns=_words("Hexworth Marlowick Tennerby"),
        lines=range(60, 75),
        card_remainder=1,
    ),
    "held_out": Parts(
        first_names=_words(
            "Alderic Senneth Philipparo Korvin Jessamy Umberto Rosalindra Tobiath Wilhelma Dashiel Evanthe Mordecai "
            "Linnea Barnabel Xanthe Ferris"
        ),
        last_names=_words(
            "Hawkinsfell Bramblewick Ostrandel Pevermarch Tidewaterly Summerlock Crowhollin Velthorpe "
            "Ravenspell Applegarrow Zimmerholt Kingfisherly Northgale Lovibrook Thackerby Whitlarch"
        ),
        streets=_words(
            "Nettlebank Copperfennel Heronsgate Juniperine Saltmarsh Windmere Peregrove Hazelnook Toadstone Larchmont"
        ),
        towns=_words("Wickenby Sallowford Greenmarch Thornacre Ravelstow"),
        lines=range(75, 100),
        card_remainder=2,
    ),
}

KINDS_OF_STREET = ("Street", "Road", "Lane", "Avenue", "Court")
DOMAINS = ("example.com", "example.net", "example.org")
AREAS = (212, 303, 312, 415, 503, 617, 702, 808)
TEST_RANGES = ("400000", "424242", "411111", "555555", "510510", "601111")
ITEMS = _words("lamp kettle bicycle laptop blender chair jacket camera heater printer tent guitar")
DAYS = _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")


def make_name(draw: random.Random, parts: Parts) -> str:
    """Return a first and a last name, or one in four times the first alone."""
    first = draw.choice(parts.first_names)
    return first if draw.random() < 0.25 else f"{first} {draw.choice(parts.last_names)}"


def make_email(draw: random.Random, parts: Parts) -> str:
    """Return an address at a reserved domain."""
    first, last = draw.choice(parts.first_names).lower(), draw.choice(parts.last_names).lower()
    local = draw.choice((f"{first}.{last}", f"{first[0]}.{last}", f"{first}_{last}", f"{last}{first[0]}"))
    return f"{local}@{draw.choice(DOMAINS)}"


def make_phone(draw: random.Random, parts: Parts) -> str:
    """Return a number that is kept for fiction, in one of four spellings."""
    line = f"555-01{draw.choice(parts.lines):02d}"
    area = draw.choice(AREAS)
    return draw.choice((line, f"({area}) {line}", f"{area}-{line}", f"+1 {area} {line}"))


def make_address(draw: random.Random, parts: Parts) -> str:
    """Return number and street, half of the time with a town."""
    street = f"{draw.randint(2, 199)} {draw.choice(parts.streets)} {draw.choice(KINDS_OF_STREET)}"
    return f"{street}, {draw.choice(parts.towns)}" if draw.random() < 0.5 else street


def make_card(draw: random.Random, parts: Parts) -> str:
    """Return 16 digits that fail the check which every card number passes."""
    body = int(draw.choice(TEST_RANGES)) * 10**9 + draw.randrange(10**9)
    body += (parts.card_remainder - body) % 3
    right = luhn_digit(body)
    digits = f"{body}{(right + draw.randint(1, 9)) % 10}"
    groups = [digits[start : start + 4] for start in range(0, 16, 4)]
    return draw.choice((" ", "-", "")).join(groups)


def luhn_digit(body: int) -> int:
    """Return the check digit that a card number with these other digits has (ISO/IEC 7812-1)."""
    doubled = [int(digit) * (2 - place % 2) for place, digit in enumerate(reversed(str(body)))]
    return -sum(value - 9 if value > 9 else value for value in doubled) % 10


PERSONAL: dict[str, Callable[[random.Random, Parts], str]] = {
    "NAME": make_name,
    "EMAIL": make_email,
    "PHONE": make_phone,
    "ADDRESS": make_address,
    "CARD": make_card,
}

HARMLESS: dict[str, Callable[[random.Random], str]] = {
    "order": lambda draw: str(draw.randint(10_000, 99_999)),
    "amount": lambda draw: f"${draw.randint(3, 400)}.{draw.choice(('00', '50', '95'))}",
    "time": lambda draw: f"{draw.randint(7, 19)}:{draw.choice(('00', '15', '30', '45'))}",
    "room": lambda draw: str(draw.randint(2, 480)),
    "item": lambda draw: draw.choice(ITEMS),
    "day": lambda draw: draw.choice(DAYS),
}
"""Nothing personal: the model has to leave these as they are."""
