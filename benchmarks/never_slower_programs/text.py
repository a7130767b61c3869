"""Text: words, lines, formats, small parsers."""

import json
import math
import re
import string

import numpy as np

from never_slower_programs import Family

program = Family()

WORDS = "the quick brown fox jumps over a lazy dog while seven wizards brew potent jam near old mills and level rivers".split()


def words(n):
    return [WORDS[(i * i + 3 * i) % len(WORDS)] + ("" if i % 5 else str(i % 97)) for i in range(n)]


def text(n):
    return (" ".join(words(n)),)


@program(text, 6, 400, 20000, 120000)
def word_count(text):
    d = {}
    for w in text.split():
        d[w] = d.get(w, 0) + 1
    return d


@program(text, 6, 400, 20000, 120000)
def upper_words(text):
    out = []
    for w in text.split():
        out.append(w.upper())
    return out


@program(lambda n: (n,), 6, 300, 20000, 120000)
def numbers_as_text(n):
    out = []
    for i in range(n):
        out.append(str(i))
    return ",".join(out)


@program(text, 6, 300, 20000, 120000)
def word_entropy(text):
    counts = {}
    for w in text.split():
        counts[w] = counts.get(w, 0) + 1
    p = np.array(list(counts.values()), dtype=float)
    p /= p.sum()
    return -(p * np.log2(p)).sum()


@program(text, 6, 200, 10000, 60000)
def split_and_join(text):
    parts = [w.strip().capitalize() for w in text.split(" ")]
    return "-".join(parts) + "|" + "".join(reversed(parts))


@program(lambda n: ([(w, i * 1.5, i) for i, w in enumerate(words(n))],), 4, 60, 4000, 25000)
def formatted_rows(rows):
    lines = []
    for name, price, count in rows:
        lines.append(f"{name:<12}|{price:10.2f}|{count:>6d}|{price * count:,.1f}")
    return "\n".join(lines)


@program(lambda n: ([(w, i * 1.5) for i, w in enumerate(words(n))],), 4, 60, 4000, 25000)
def percent_formats(rows):
    out = ""
    for name, price in rows:
        out += "%-10s %8.3f;" % (name, price)  # noqa: UP031
    return len(out), out[:50]


@program(lambda n: ("kitten sitting on the mat"[:n] * (n // 25 + 1), "sitting kitten at a mat"[:n] * (n // 25 + 1)),
         5, 20, 90, 200)  # fmt: skip
def levenshtein(a, b):
    previous = list(range(len(b) + 1))
    for i, ca in enumerate(a, 1):
        current = [i]
        for j, cb in enumerate(b, 1):
            current.append(min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (ca != cb)))
        previous = current
    return previous[-1]


@program(lambda n: ("".join(words(n))[:n], "".join(words(n + 7))[5 : n + 5]), 5, 20, 110, 280)
def longest_common_subsequence(a, b):
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a)):
        for j in range(len(b)):
            if a[i] == b[j]:
                table[i + 1][j + 1] = table[i][j] + 1
            else:
                table[i + 1][j + 1] = max(table[i][j + 1], table[i + 1][j])
    return table[len(a)][len(b)]


@program(lambda n: (" ".join(words(n)), 13), 4, 40, 2500, 15000)
def caesar(text, shift):
    result = ""
    for c in text:
        if c.isalpha():
            base = ord("A") if c.isupper() else ord("a")
            result += chr((ord(c) - base + shift) % 26 + base)
        else:
            result += c
    return result


@program(text, 6, 2000, 100000, 500000)
def translated(text):
    table = str.maketrans(string.ascii_lowercase, string.ascii_lowercase[3:] + string.ascii_lowercase[:3])
    return text.translate(table).replace("a", "@").count("@")


@program(text, 6, 60, 5000, 30000)
def regex_counts(text):
    found = {}
    for match in re.finditer(r"\b([a-z]+)(\d*)\b", text):
        found[match.group(1)] = found.get(match.group(1), 0) + len(match.group(2))
    return found


@program(lambda n: (" + ".join(f"(x{i} * {i}.5 - 3)" for i in range(n)),), 2, 8, 500, 3000)
def tokenizer(source):
    tokens, i = [], 0
    while i < len(source):
        c = source[i]
        if c.isspace():
            i += 1
        elif c.isdigit():
            j = i
            while j < len(source) and (source[j].isdigit() or source[j] == "."):
                j += 1
            tokens.append(("number", float(source[i:j])))
            i = j
        elif c.isalpha():
            j = i
            while j < len(source) and source[j].isalnum():
                j += 1
            tokens.append(("name", source[i:j]))
            i = j
        else:
            tokens.append(("operator", c))
            i += 1
    return tokens


@program(lambda n: (words(n),), 5, 150, 8000, 50000)
def palindromes(candidates):
    found = []
    for w in candidates:
        cleaned = "".join(c for c in w if c.isalpha())
        if cleaned == cleaned[::-1]:
            found.append(w)
    return found


@program(lambda n: ("ACGTTGCAAC" * n,), 2, 60, 5000, 30000)
def gc_content(dna):
    gc = 0
    for base in dna:
        if base in "GC":
            gc += 1
    return gc / len(dna)


@program(lambda n: ("ACGTTGCAAC" * n,), 2, 200, 50000, 400000)
def gc_content_by_buffer(dna):
    codes = np.frombuffer(dna.encode(), dtype=np.uint8)
    return float(((codes == ord("G")) | (codes == ord("C"))).mean()), np.bincount(codes, minlength=128).max()


@program(lambda n: ("ACGTTGCAAC" * n, 4), 2, 20, 2000, 12000)
def k_mers(dna, k):
    counts = {}
    for i in range(len(dna) - k + 1):
        word = dna[i : i + k]
        if word in counts:
            counts[word] += 1
        else:
            counts[word] = 1
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


@program(lambda n: ("id,name,price\n" + "\n".join(f"{i},{w},{i * 0.5}" for i, w in enumerate(words(n))),),
         3, 60, 4000, 25000)  # fmt: skip
def csv_totals(data):
    lines = data.strip().split("\n")
    header = lines[0].split(",")
    rows = []
    for line in lines[1:]:
        row = dict(zip(header, line.split(",")))
        row["price"] = float(row["price"])
        row["id"] = int(row["id"])
        rows.append(row)
    return sum(r["price"] for r in rows), max(rows, key=lambda r: r["price"])["name"], len(rows)


@program(lambda n: ([{"id": i, "tags": [w, w[:2]], "v": i / 3} for i, w in enumerate(words(n))],), 3, 25, 1200, 8000)
def json_round_trip(records):
    loaded = json.loads(json.dumps(records, sort_keys=True))
    return [r["id"] for r in loaded if "th" in r["tags"]], loaded == records


@program(lambda n: ("aaabbbccd" * n,), 2, 40, 2000, 12000)
def run_lengths(data):
    out, i = [], 0
    while i < len(data):
        j = i
        while j < len(data) and data[j] == data[i]:
            j += 1
        out.append((data[i], j - i))
        i = j
    return out


@program(lambda n: (words(n),), 5, 100, 5000, 30000)
def anagram_groups(candidates):
    groups = {}
    for w in candidates:
        groups.setdefault("".join(sorted(w)), []).append(w)
    return {k: len(v) for k, v in groups.items() if len(v) > 1}


@program(lambda n: (n,), 5, 60, 2500, 15000)
def roman_numerals(limit):
    pairs = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"),
             (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]  # fmt: skip
    out = []
    for n in range(1, limit):
        text = ""
        for value, numeral in pairs:
            while n >= value:
                text += numeral
                n -= value
        out.append(text)
    return out


@program(lambda n: ("ab" * n + "aac", "abaac"), 4, 150, 8000, 50000)
def knuth_morris_pratt(text, pattern):
    failure, k = [0] * len(pattern), 0
    for i in range(1, len(pattern)):
        while k and pattern[k] != pattern[i]:
            k = failure[k - 1]
        k += pattern[k] == pattern[i]
        failure[i] = k
    k = 0
    for i, c in enumerate(text):
        while k and (k == len(pattern) or pattern[k] != c):
            k = failure[k - 1]
        k += pattern[k] == c
        if k == len(pattern):
            return i - k + 1
    return -1


@program(lambda n: (n,), 5, 100, 5000, 30000)
def bases_by_hand(limit):
    digits = "0123456789abcdef"
    out = []
    for n in range(1, limit):
        s = ""
        while n:
            n, r = divmod(n, 16)
            s = digits[r] + s
        out.append(s)
    return out


@program(lambda n: (words(n),), 5, 200, 15000, 90000)
def letter_frequencies(candidates):
    counts = [0] * 26
    for w in candidates:
        for c in w:
            k = ord(c) - 97
            if 0 <= k < 26:
                counts[k] += 1
    total = sum(counts)
    return [round(c / total, 6) for c in counts]


@program(lambda n: (words(n), words(2 * n)), 5, 60, 3000, 15000)
def term_weights(document, corpus):
    totals = {}
    for w in corpus:
        totals[w] = totals.get(w, 0) + 1
    scores = {}
    for w in document:
        scores[w] = scores.get(w, 0.0) + math.log(len(corpus) / (1 + totals.get(w, 0)))
    return sorted(scores.items(), key=lambda item: -item[1])[:5]


@program(lambda n: ("\n".join(f"2024-01-{i % 28 + 1:02d} {'ERROR' if i % 7 == 0 else 'INFO'} job={i} t={i * 3}" for i in range(n)),),
         3, 50, 3000, 20000)  # fmt: skip
def log_summary(log):
    errors, slow = {}, 0
    for line in log.splitlines():
        day, level, *fields = line.split()
        values = dict(field.split("=") for field in fields)
        if level == "ERROR":
            errors[day] = errors.get(day, 0) + 1
        if int(values["t"]) > 100:
            slow += 1
    return errors, slow
