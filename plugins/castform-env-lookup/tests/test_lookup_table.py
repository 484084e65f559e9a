from __future__ import annotations

from castform_env_lookup.table import COLUMNS, find_name, load_table, search_names, split_of


def test_the_table_has_two_hundred_places_with_every_column() -> None:
    table = load_table()
    assert len(table) == 200
    assert all(set(row) == set(COLUMNS) and min(row.values()) > 0 for row in table.values())


def test_no_name_is_part_of_another() -> None:
    names = list(load_table())
    assert not [(a, b) for a in names for b in names if a != b and a.casefold() in b.casefold()]


def test_names_are_found_in_any_case_and_by_a_part() -> None:
    assert find_name(" tamonix ") == "Tamonix"
    assert find_name("Tamoni") is None
    assert search_names("tamoni") == ["Tamonix"]
    assert search_names("  ") == []
    assert len(search_names("a")) == 5


def test_both_splits_have_places() -> None:
    splits = [split_of(name) for name in load_table()]
    assert splits.count("eval") >= 60 and splits.count("train") >= 100
