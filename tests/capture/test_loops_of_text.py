"""Loops over strings and their characters as machine code."""

from __future__ import annotations


import numpy as np
import pytest

from loop_support import compare, loops

pytestmark = pytest.mark.capture

TEXT = "the quick brown fox jumps over the lazy dog, 12 times " * 8
LATIN = "na\u00efve \u00e9tude \u00df " * 12
WIDE = "\u4e16\u754c hello \u0663 " * 12
WIDEST = "a\U0001f40d\u4e16z " * 20
TEXTS = (lambda: (TEXT,), lambda: (LATIN,), lambda: (WIDE,), lambda: (WIDEST,), lambda: ("",), lambda: ("x",))


def vowels(text):
    found = 0
    for c in text:
        if c in "aeiou":
            found += 1
    return found


def hashed(text):
    value = 5381
    for c in text:
        value = (value * 33 + ord(c)) & 0xFFFFFFFF
    return value, c if text else None


def mirrored(text):
    i, j, same = 0, len(text) - 1, 0
    while i < j:
        if text[i] == text[-i - 1] and text[j] >= "a":
            same += 1
        i, j = i + 1, j - 1
    return same


def kinds(text):
    counts = [0, 0, 0, 0, 0, 0]
    for c in text:
        counts[0] += c.isdigit()
        counts[1] += c.isalpha()
        counts[2] += c.isalnum()
        counts[3] += c.isspace()
        counts[4] += c.isupper()
        counts[5] += c.islower()
    return counts


def last_and_largest(text):
    last = largest = ""
    for k, c in enumerate(text):
        if k == 0 or c > largest:
            largest = c
        last = c
    return last, largest, last is largest, k if text else None


def digits(text):
    total = 0
    for c in text:
        if c.isdigit():
            total += int(c)
    return total


def shifted(text):
    out = []
    for c in text:
        out.append(chr(ord(c) + 1))
    return out, out[-1:] + ["end"]


def upper(text):
    out = []
    for c in text:
        out.append((c.upper(), c.lower()))
    return out


def distance(a, b):
    row = np.arange(len(b) + 1)
    for i in range(1, len(a) + 1):
        before, row[0] = row[0], i
        for j in range(1, len(b) + 1):
            cost = before if a[i - 1] == b[j - 1] else 1 + min(before, row[j], row[j - 1])
            before, row[j] = row[j], cost
    return row[-1]


def sorted_letters(text):
    letters = list(text)
    for i in range(1, len(letters)):
        k = i
        while k > 0 and letters[k - 1] > letters[k]:
            letters[k - 1], letters[k] = letters[k], letters[k - 1]
            k -= 1
    return letters


def common(a, b):
    found = 0
    for x, y in zip(a, b):
        if x == y or x in b:
            found += 1
    return found


def in_comprehension(text):
    return sum(1 for c in text if c == "o"), [ord(c) for c in text], any(c == "\u4e16" for c in text)


def every_letter(text, mode):
    found = 0
    for c in text:
        if mode == "strict" and c == "o":
            found += 2
        elif c != "e" and c != "ab":
            found += 1
    return found


@pytest.mark.parametrize("function", [vowels, hashed, mirrored, last_and_largest, shifted, in_comprehension, kinds], ids=lambda f: f.__name__)
def test_texts(function):
    marked = compare(function, *TEXTS)
    entries = loops(marked)
    assert entries, function.__name__
    assert not any(leave["why"] and leave["taken"] for entry in entries for leave in entry["exits"])


@pytest.mark.parametrize("function", [digits, upper], ids=lambda f: f.__name__)
def test_what_is_beyond_ascii_is_left_to_the_interpreter(function):
    marked = compare(function, *TEXTS)
    assert loops(marked)


def test_one_version_for_each_width():
    marked = compare(vowels, *TEXTS, lambda: (TEXT[3:],), lambda: (WIDE[1:],))
    guards = ["str of" in guard for entry in loops(marked) for guard in entry["guards"]]
    assert sum(guards) == len(loops(marked)) == 4  # ASCII, Latin-1, 16 and 32 bits


def test_elements():
    marked = compare(distance, lambda: (TEXT[:40], TEXT[3:50]), lambda: (WIDE[:20], TEXT[:30]), lambda: ("", "abc"))
    assert loops(marked)
    marked = compare(sorted_letters, lambda: (TEXT[:60],), lambda: (WIDEST[:30],), lambda: ("",))
    assert loops(marked)
    compare(common, lambda: (TEXT, LATIN), lambda: (WIDE, WIDEST))
    compare(every_letter, lambda: (TEXT, "strict"), lambda: (TEXT, "loose"), lambda: (LATIN, "strict"))


class Text(str):
    """No exact str: its methods may be the program's."""

    def __getitem__(self, at):
        return "q"


def test_other_kinds_of_text():
    compare(mirrored, lambda: (Text(TEXT),), lambda: (TEXT,))
    compare(vowels, lambda: (Text(TEXT),), lambda: (list(TEXT),), lambda: (tuple("abc"),), lambda: (b"bytes".decode(),))
    compare(hashed, lambda: ([*TEXT[:20], "ab"],), lambda: ([*TEXT[:20], None],))
    compare(digits, lambda: ("\u0663\u0664" * 10,), lambda: ("1\u00b2" * 10,))


def past_its_end(text):
    found = 0
    for i in range(len(text) + 1):
        if text[i] == "o":
            found += 1
    return found


def no_character(n):
    total = 0
    for k in range(n):
        total += ord(chr(k * 100000))
    return total


def test_exceptions():
    compare(past_its_end, lambda: (TEXT,), lambda: ("",))
    compare(no_character, lambda: (5,), lambda: (40,))
