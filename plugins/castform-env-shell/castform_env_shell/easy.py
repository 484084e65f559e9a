"""Tasks that one short command does."""

from __future__ import annotations

import random

from castform_env_shell.draws import folders, names, text_of, words
from castform_env_shell.state import Goal, State
from castform_env_shell.task import Task


def write_word(rng: random.Random) -> Task:
    (word,), (name,) = words(rng, 1), names(rng, 1)
    return Task(
        question=f"Write the word {word} into the file {name}.",
        start=State(),
        goal=Goal(files={name: word}),
        solution=f"echo {word} > {name}",
    )


def copy_file(rng: random.Random) -> Task:
    source, target = names(rng, 2)
    text = text_of(words(rng, 3))
    return Task(
        question=f"Copy the file {source} to {target}.",
        start=State(files={source: text}),
        goal=Goal(files={target: text}),
        solution=f"cp {source} {target}",
    )


def rename_file(rng: random.Random) -> Task:
    source, target = names(rng, 2)
    text = text_of(words(rng, 3))
    return Task(
        question=f"Rename the file {source} to {target}.",
        start=State(files={source: text}),
        goal=Goal(files={source: None, target: text}),
        solution=f"mv {source} {target}",
    )


def make_folder(rng: random.Random) -> Task:
    (name,) = folders(rng, 1)
    return Task(
        question=f"Make a folder called {name}.",
        start=State(),
        goal=Goal(folders=(name,)),
        solution=f"mkdir {name}",
    )


def delete_file(rng: random.Random) -> Task:
    gone, kept = names(rng, 2)
    return Task(
        question=f"Delete the file {gone}.",
        start=State(files={gone: text_of(words(rng, 1)), kept: text_of(words(rng, 1))}),
        goal=Goal(files={gone: None}),
        solution=f"rm {gone}",
    )


MAKERS = (write_word, copy_file, rename_file, make_folder, delete_file)
