"""Probes that are noise: long, short, and far too long."""

from __future__ import annotations

import random
import string

from castform.probes.probe import Probe, ProbeContext
from castform.scripted_replies import Script
from castform.seeds import derive_seed

JUNK_CHARACTERS = 2000
WORD_CHARACTERS = 6
FLOOD_CHARACTERS = 1_000_000
FLOOD_EXAMPLES = 2
_LETTERS = string.ascii_letters + string.digits + string.punctuation + " \n"


def _junk(context: ProbeContext) -> Script:
    text = _random(context).choices(_LETTERS, k=JUNK_CHARACTERS)
    return lambda request: "".join(text)


def _nonsense(context: ProbeContext) -> Script:
    word = "".join(_random(context).choices(string.ascii_lowercase, k=WORD_CHARACTERS))
    written = context.rendering.write(f"zq{word}")
    return lambda request: written


def _flood(context: ProbeContext) -> Script:
    line = "".join(_random(context).choices(string.ascii_letters + " ", k=99)) + "\n"
    return lambda request: line * (FLOOD_CHARACTERS // len(line))


def _random(context: ProbeContext) -> random.Random:
    return random.Random(derive_seed(context.seed, "noise", context.example_id))


PROBES = (
    Probe(name="junk", what=f"{JUNK_CHARACTERS:,} characters of noise", make=_junk),
    Probe(name="nonsense", what="a made-up word in the form that pays", make=_nonsense),
    Probe(name="flood", what="1 MB of text", make=_flood, max_examples=FLOOD_EXAMPLES),
)
