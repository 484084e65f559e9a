"""Units that may follow a number. The same unit has many spellings; none is ever converted into another."""

from __future__ import annotations

_SPELLINGS = """
%: percent pct
°: degree degrees deg
°C: celsius
°F: fahrenheit
mm: millimeter millimeters millimetre millimetres
cm: centimeter centimeters centimetre centimetres
m: meter meters metre metres
km: kilometer kilometers kilometre kilometres
inch: inches
ft: foot feet
yd: yard yards
mi: mile miles
mg: milligram milligrams
g: gram grams
kg: kilogram kilograms
t: tonne tonnes ton tons
lb: lbs pound pounds
oz: ounce ounces
ml: mL milliliter milliliters millilitre millilitres
L: l liter liters litre litres
gal: gallon gallons
ms: millisecond milliseconds
s: sec secs second seconds
min: mins minute minutes
h: hr hrs hour hours
day: days
week: weeks
month: months
year: years yr yrs
Hz: hertz
kHz: kilohertz
N: newton newtons
Pa: pascal pascals
bar: bars
J: joule joules
kJ: kilojoule kilojoules
kcal:
mW: milliwatt milliwatts
W: watt watts
kW: kilowatt kilowatts
MW: megawatt megawatts
kWh:
V: volt volts
Ω: ohm ohms
mol: mole moles
byte: bytes
KB: kB kilobyte kilobytes
MB: megabyte megabytes
GB: gigabyte gigabytes
USD: dollar dollars
EUR: euro euros €
GBP: £
JPY: yen ¥
ct: cent cents
rad: radian radians
km/h: kmh kph
m/s:
mph:
m/s^2:
mm^2:
cm^2:
m^2: sqm
km^2:
cm^3: cc
m^3:
"""


def _read_spellings(table: str) -> dict[str, str]:
    units: dict[str, str] = {}
    for line in table.strip().splitlines():
        unit, _, spellings = line.partition(":")
        units |= dict.fromkeys([unit, *spellings.split()], unit)
    return units


UNITS = _read_spellings(_SPELLINGS)
"""Canonical unit by spelling. Symbols keep their case (`mW` is not `MW`); words are looked up in lower case too."""


def find_unit(spelling: str) -> str | None:
    """Return the canonical unit of a spelling, None for a word that is no unit."""
    return UNITS.get(spelling) or (UNITS.get(spelling.lower()) if len(spelling) > 3 else None)
