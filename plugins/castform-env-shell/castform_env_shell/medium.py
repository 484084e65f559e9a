"""Tasks that need a filter, a count or an edit."""

from __future__ import annotations

import random

from castform_env_shell.draws import folders, names, text_of, word_lines, words
from castform_env_shell.state import Goal, State
from castform_env_shell.task import Task


def count_lines(rng: random.Random) -> Task:
    source, target = names(rng, 2)
    lines = word_lines(rng, 5, 40)
    return Task(
        question=f"Write the number of lines of {source} into {target}.",
        start=State(files={source: text_of(lines)}),
        goal=Goal(files={target: str(len(lines))}),
        solution=f"wc -l < {source} > {target}",
    )


def sort_lines(rng: random.Random) -> Task:
    source, target = names(rng, 2)
    lines = word_lines(rng, 5, 12)
    while lines == sorted(lines):
        rng.shuffle(lines)
        lines.append(words(rng, 1)[0])
    return Task(
        question=f"Write the lines of {source} into {target}, sorted by the alphabet.",
        start=State(files={source: text_of(lines)}),
        goal=Goal(files={target: text_of(sorted(lines))}),
        solution=f"sort {source} > {target}",
    )


def keep_matching(rng: random.Random) -> Task:
    source, target = names(rng, 2)
    wanted, *others = words(rng, 5)
    lines = [f"{rng.choice([wanted, *others])} {number}" for number in range(1, rng.randint(8, 20))]
    lines.insert(rng.randrange(len(lines)), f"{wanted} 0")
    kept = [line for line in lines if wanted in line]
    return Task(
        question=f"Write the lines of {source} that contain {wanted} into {target}, in the same order.",
        start=State(files={source: text_of(lines)}),
        goal=Goal(files={target: text_of(kept)}),
        solution=f"grep {wanted} {source} > {target}",
    )


def replace_word(rng: random.Random) -> Task:
    (name,) = names(rng, 1)
    old, new, *others = words(rng, 6)
    pool = [old, *others]
    lines = [f"{rng.choice(pool)} {rng.choice(pool)}" for _ in range(6)]
    lines.insert(rng.randrange(len(lines)), f"{old} {old}")
    return Task(
        question=f"Replace every {old} in the file {name} by {new}.",
        start=State(files={name: text_of(lines)}),
        goal=Goal(files={name: text_of(lines).replace(old, new)}),
        solution=f"sed -i 's/{old}/{new}/g' {name}",
    )


def make_executable(rng: random.Random) -> Task:
    chosen, other = names(rng, 2, ".sh")
    scripts = {name: f"echo {word}\n" for name, word in zip((chosen, other), words(rng, 2), strict=True)}
    return Task(
        question=f"Make the file {chosen} executable.",
        start=State(files=scripts),
        goal=Goal(executable=(chosen,)),
        solution=f"chmod +x {chosen}",
    )


def count_files(rng: random.Random) -> Task:
    (folder,), (target,) = folders(rng, 1), names(rng, 1)
    texts = names(rng, rng.randint(2, 9))
    others = names(rng, rng.randint(1, 5), ".csv")
    return Task(
        question=f"Write into {target} how many .txt files there are in the folder {folder}.",
        start=State(
            files={f"{folder}/{name}": text_of(words(rng, 1)) for name in (*texts, *others)},
            folders=frozenset({folder}),
        ),
        goal=Goal(files={target: str(len(texts))}),
        solution=f"ls {folder}/*.txt | wc -l > {target}",
    )


MAKERS = (count_lines, sort_lines, keep_matching, replace_word, make_executable, count_files)
