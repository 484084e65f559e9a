"""Tasks over several files, columns or steps."""

from __future__ import annotations

import random
from collections import Counter

from castform_env_shell.draws import folders, names, text_of, words
from castform_env_shell.state import Goal, State
from castform_env_shell.task import Task


def sum_column(rng: random.Random) -> Task:
    (source,), (target,) = names(rng, 1, ".csv"), names(rng, 1)
    wanted, *others = words(rng, 4)
    rows = [(rng.choice([wanted, *others]), rng.randint(1, 90)) for _ in range(rng.randint(8, 20))]
    rows += [(wanted, rng.randint(1, 90)), (others[0], rng.randint(1, 90))]
    total = sum(value for name, value in rows if name == wanted)
    return Task(
        question=(
            f"The lines of {source} are a name, a comma and a number, below a line of titles. "
            f"Write the sum of the numbers of {wanted} into {target}."
        ),
        start=State(files={source: text_of(["name,amount", *(f"{name},{value}" for name, value in rows)])}),
        goal=Goal(files={target: str(total)}),
        solution=f"awk -F, '$1 == \"{wanted}\" {{ s += $2 }} END {{ print s }}' {source} > {target}",
    )


def most_common_word(rng: random.Random) -> Task:
    source, target = names(rng, 2)
    winner, *others = words(rng, 6)
    drawn = [rng.choice(others) for _ in range(rng.randint(10, 20))]
    most = Counter(drawn).most_common(1)[0][1]
    drawn += [winner] * (most + rng.randint(1, 3))
    rng.shuffle(drawn)
    lines = [" ".join(drawn[place : place + 4]) for place in range(0, len(drawn), 4)]
    return Task(
        question=f"Write the word that occurs most often in {source} into {target}.",
        start=State(files={source: text_of(lines)}),
        goal=Goal(files={target: winner}),
        solution=(
            f"tr -s ' ' '\\n' < {source} | sort | uniq -c | sort -rn | head -n 1 | awk '{{ print $2 }}' > {target}"
        ),
    )


def sort_into_folders(rng: random.Random) -> Task:
    texts, tables = names(rng, rng.randint(2, 4)), names(rng, rng.randint(2, 4), ".csv")
    first, second = folders(rng, 2)
    content = {name: text_of(words(rng, 2)) for name in (*texts, *tables)}
    moved = {
        **{f"{first}/{name}": content[name] for name in texts},
        **{f"{second}/{name}": content[name] for name in tables},
    }
    return Task(
        question=f"Move all .txt files into a new folder {first} and all .csv files into a new folder {second}.",
        start=State(files=content),
        goal=Goal(files={**dict.fromkeys(content), **moved}, folders=(first, second)),
        solution=f"mkdir {first} {second}\nmv *.txt {first}/\nmv *.csv {second}/",
    )


def find_largest(rng: random.Random) -> Task:
    places = folders(rng, 3)
    (target,) = names(rng, 1)
    sizes = rng.sample(range(1, 30), 6)
    files = {
        f"{rng.choice(places)}/{name}": text_of(["x" * 9] * size)
        for name, size in zip(names(rng, 6, ".dat"), sizes, strict=True)
    }
    largest = max(files, key=lambda path: len(files[path]))
    return Task(
        question=f"Write the name of the largest .dat file below this folder into {target}, without its folder.",
        start=State(files=files, folders=frozenset(path.partition("/")[0] for path in files)),
        goal=Goal(files={target: largest.rpartition("/")[2]}),
        solution=f"basename \"$(find . -name '*.dat' -size +0 -exec wc -c {{}} \\; | sort -n | tail -n 1 | "
        f"awk '{{ print $2 }}')\" > {target}",
    )


def join_files(rng: random.Random) -> Task:
    first, second, target = names(rng, 3)
    pool = words(rng, 16)
    common, left, right = pool[:4], pool[4:10], pool[10:]
    one, two = [*common, *left], [*common, *right]
    rng.shuffle(one)
    rng.shuffle(two)
    return Task(
        question=f"Write the words that are both in {first} and in {second} into {target}, sorted by the alphabet.",
        start=State(files={first: text_of(one), second: text_of(two)}),
        goal=Goal(files={target: text_of(sorted(common))}),
        solution=f"grep -x -F -f {first} {second} | sort > {target}",
    )


MAKERS = (sum_column, most_common_word, sort_into_folders, find_largest, join_files)
