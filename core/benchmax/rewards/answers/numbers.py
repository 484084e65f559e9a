"""Numbers in text, by their exact value, with the unit that follows.

Read: signs, `1,234`, `1 234`, `1'234`, `1.234,56`, `1.234.567`, `0.5`, `.5`, `1e3`, `3 \\times 10^8`,
`3/4`, `1 1/2`, `\\frac{3}{4}`, `5 million`, `58%`, `58 cm`, digits of every script. Not read, because they may
mean two things or are no quantity: `3,14`, parts of words, dates, times, versions and ranges.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from benchmax.rewards.answers.plain import canonical, undecorated
from benchmax.rewards.answers.units import UNITS, find_unit

TAIL_CHARS = 4000
"""How far back from the end of a text a number is looked for."""
MAX_NUMBER_CHARS = 1000
_INTEGER = r"[1-9]\d{0,2}"
_NUMBER = re.compile(
    # no part of a word, date, time, range, power or index
    r"(?<![\w.^)±√∛≠≤≥])(?<![√∛≠≤≥]\s)(?<!!=)(?<!!=\s)(?<![<>]=)(?<![<>]=\s)(?<!\w[-/])(?<!\d[–—:,'])"
    r"(?P<sign>[-+]?)(?:(?P<before>[€£¥]|USD)\s?)?"
    r"(?:(?P<whole>\d++)\ +(?P<part>\d++)\s?/\s?(?P<parts>\d++)"
    r"|(?P<main>" + _INTEGER + r"(?:,\d{3})++(?:\.\d++)?"
    r"|" + _INTEGER + r"(?:[\ ']\d{3})++(?:\.\d++|,\d{1,2}(?!\d))?"
    r"|" + _INTEGER + r"(?:\.\d{3})++,\d++"
    r"|" + _INTEGER + r"(?:\.\d{3}){2,}"
    r"|\d++(?:\.\d*+)?|\.\d++)"
    r"(?:[eE](?P<exponent>[-+]?\d{1,3}))?(?:\s*/\s*(?P<below>\d++))?)"
    r"(?![\d^]|_\d|\s*\^|\s*/\s*[\w(]|[.,:']\d|[-–—]\w)"
)
_UNIT = re.compile(
    r"\s*(?:(?P<power>square|sq\.?|cubic)\s+)?(?P<unit>[%€£¥]|°\s?[CF]?|[^\W\d_]+(?:/[^\W\d_]+)?(?:\^\{?\d\}?)?)"
)
_SCALES = {
    "dozen": 12,
    "hundred": 10**2,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
_SCALE = re.compile(r"\s+(dozen|hundred|thousand|million|billion|trillion)s?\b", re.IGNORECASE)
_SCIENTIFIC = re.compile(
    r"(?<=\d)\s*(?:\\times|\\cdot|[×·*x⋅])\s*10\s*\^\s*(?:\{\s*([-+]?\d{1,3})\s*\}|\(?([-+]?\d{1,3})(?!\d)\)?)"
)
_POWER_OF_TEN = re.compile(r"(?<![\w.^)}])10\^(?:\{\s*([-+]?\d{1,3})\s*\}|([-+]?\d{1,3})(?!\d))(?![\w.^]*\w)")
_FRACTION = re.compile(
    r"(?P<whole>\d\s*)?(?P<sign>-?)\\[dtc]?frac\s*"
    r"(?:\{\s*(?P<signs>-?)(?P<above>\d++)\s*\}\s*\{\s*(?P<below>\d++)\s*\}|\s?(?P<short>\d)\s*(?P<shorter>\d))"
)
_LATEX_SIGNS = re.compile(
    r"\\(%|\$)|(?:\^\s*\{?\s*\\circ\s*\}?)|\{(,)\}|\\(?:degree|textdegree)(?![A-Za-z])|(?<=\d)\\?[,;!:]?\\\s(?=\d)|(?<=\d)\\,(?=\d)"
)
_MONEY = re.compile(r"(?<![\\$\w])(-?)(?:US)?\$(?=[-+]?\.?\d[^$\n]*(?:\n|$))")
_ARROW = re.compile(r"^\s*(?:[=-]>|[⇒→∴])\s*|(?:≈|\\approx(?![A-Za-z]))\s*")
_SIGN_IN_WORDS = re.compile(
    r"\bnegative\s+(?=[.\d])|(?:^|(?<=[=:])|(?<=\bis))\s*\bminus\s+(?=[.\d])", re.IGNORECASE
)
_DEGREES = re.compile(r"\bdegrees?\s+(c)elsius\b|\bdegrees?\s+(f)ahrenheit\b", re.IGNORECASE)
_DETACHED_SIGN = re.compile(r"(?<=[=≈:])(\s*)-\s+(?=[.\d])")
_NEGATION = re.compile(
    r"\b(?:not|never|neither|nor|cannot|isn't|wasn't|can't|aren't|doesn't|rather than|instead of)\b", re.I
)
_GAP = r"[^\w.,;:!?\n]"
_DENIED = re.compile(
    _GAP
    + r"{0,3}(?:\w+"
    + _GAP
    + r"{1,2}){0,2}?(?:is|was|are|would be|seems|looks)\s+(?:not\b|wrong\b|incorrect\b|false\b|never\b)"
    r"|" + _GAP + r"{0,3}(?:isn't|wasn't|aren't|can't|cannot)\b",
    re.I,
)
_CLAUSE = re.compile(r"[.,;:!?\n]")
NEGATION_CHARS = 80
"""How far a "not" before or after a number reaches, within its clause."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantity:
    """A number and the unit that it was written with."""

    value: Fraction
    unit: str = ""
    """Canonical spelling, empty when there is none."""
    followed: bool = False
    """Whether a word that is no unit follows, so that the number may count something else."""

    def agrees_with(self, other: Quantity) -> bool:
        """Whether both are the same number, and of the same unit where both name one."""
        return self.value == other.value and (self.unit == other.unit or not (self.unit and other.unit))


def number_of(value: object) -> Quantity | None:
    """Return the quantity that a right answer is: a number, or text that is nothing but one with its unit."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float, Decimal, Fraction)):
        try:
            return Quantity(value=Fraction(value))
        except (ValueError, OverflowError):  # nan and infinities
            return None
    return parse_quantity(value) if isinstance(value, str) else None


def parse_quantity(text: str) -> Quantity | None:
    """Return the quantity that the whole text is; None for anything else."""
    if len(text) > MAX_NUMBER_CHARS:
        return None
    plain = numeric_text(text).strip().rstrip(".,;:?").strip()
    plain = re.sub(r"^([-+])\s+", r"\1", plain)
    match = _NUMBER.match(plain)
    if match is None:
        return None
    found = _read(match, plain)
    if found is None:
        return None
    quantity, end = found
    return quantity if end == len(plain) else None


def find_quantities(text: str) -> list[Quantity]:
    """Return the quantities in the last 4,000 characters of a text, in order, those that it denies left out."""
    plain = numeric_text(text[-TAIL_CHARS:])
    found = []
    for match in _NUMBER.finditer(plain):
        read = _read(match, plain)
        if read is not None and not _is_negated(plain, match.start(), read[1]):
            found.append(read[0])
    return found


def numeric_text(text: str) -> str:
    """Return the text with LaTeX fractions, powers of ten and signs written plainly, and decoration removed."""
    text = _ARROW.sub(" ", _MONEY.sub(r"\1USD ", canonical(text)))
    text = _DEGREES.sub(lambda m: f"°{(m[1] or m[2]).upper()}", _SIGN_IN_WORDS.sub(" -", text))
    text = _LATEX_SIGNS.sub(_plain_sign, text)
    text = _SCIENTIFIC.sub(lambda m: f"e{m[1] or m[2]}", text)
    text = _POWER_OF_TEN.sub(lambda m: f"1e{m[1] or m[2]}", text)
    text = _FRACTION.sub(_plain_fraction, text)
    return _DETACHED_SIGN.sub(r"\1-", undecorated(text))


def _plain_sign(match: re.Match[str]) -> str:
    if match[1] == "$":
        return "USD "
    if match[1]:
        return "%"
    if match[2]:
        return ","
    return "°" if "circ" in match[0] or "degree" in match[0] else " "


def _plain_fraction(match: re.Match[str]) -> str:
    above, below = match["above"] or match["short"], match["below"] or match["shorter"]
    whole = match["whole"]
    if whole is not None and (match["sign"] or match["signs"]):
        return match[0]  # a difference, no mixed number
    sign = "-" if bool(match["sign"]) != bool(match["signs"]) else ""
    return f"{(whole or '').strip()} {sign}{above}/{below}".removeprefix("" if whole else " ")


def _read(match: re.Match[str], text: str) -> tuple[Quantity, int] | None:
    """Return the quantity of a match and where it ends with its unit; None when it is none after all."""
    value = _value(match)
    if value is None:
        return None
    unit, followed, end = "", False, match.end()
    scale = _SCALE.match(text, end)
    if scale is not None:
        value, end = value * _SCALES[scale[1].lower()], scale.end()
    word = _UNIT.match(text, end)
    if word is not None:
        glued = word.start() == word.start("unit")
        named = _unit_name(word)
        if named is None:
            if glued:
                return None  # 58a
            followed = True
        else:
            unit, end = named, word.end()
    if match["before"]:
        unit = unit or UNITS[match["before"]]
    return Quantity(value=value, unit=unit, followed=followed), end


def _unit_name(word: re.Match[str]) -> str | None:
    spelling = word["unit"].replace(" ", "").replace("{", "").replace("}", "")
    base, _, power = spelling.partition("^")
    if word["power"]:
        power = "3" if word["power"] == "cubic" else "2"
    unit = find_unit(base)
    if unit is None or not power:
        return unit
    return f"{unit}^{power}"


def _value(match: re.Match[str]) -> Fraction | None:
    if match.end() - match.start() > MAX_NUMBER_CHARS:
        return None
    if match["whole"]:
        part, parts = int(match["part"]), int(match["parts"])
        if part >= parts:
            return None
        value = int(match["whole"]) + Fraction(part, parts)
    else:
        below = int(match["below"]) if match["below"] else 1
        if below == 0:
            return None
        digits = _english(match["main"])
        value = Fraction(digits) * Fraction(10) ** int(match["exponent"] or 0) / below
    return -value if match["sign"] == "-" else value


def _english(digits: str) -> str:
    """Return digits with a decimal point and no thousands separators."""
    digits = digits.replace(" ", "").replace("'", "")
    point, comma = digits.rfind("."), digits.rfind(",")
    if digits.count(".") > 1 or (0 <= point < comma):
        return digits.replace(".", "").replace(",", ".")
    if comma >= 0 and point < 0 and len(digits) - comma - 1 != 3:
        return digits.replace(",", ".")
    return digits.replace(",", "")


def _is_negated(text: str, start: int, end: int) -> bool:
    """Whether the clause around a number says that it is not that number."""
    before = _CLAUSE.split(text[max(0, start - NEGATION_CHARS) : start])[-1]
    return bool(_NEGATION.search(before)) or bool(_DENIED.match(text[end : end + NEGATION_CHARS]))
