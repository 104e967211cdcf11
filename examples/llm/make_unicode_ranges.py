#!/usr/bin/env python3
"""Prints unicode_ranges.hpp from the tables of Python's unicodedata: ./make_unicode_ranges.py > unicode_ranges.hpp"""
import unicodedata


def ranges(initial):
    """Closed ranges of code points whose general category begins with `initial`; surrogates are no characters."""
    found = []
    for point in range(0x110000):
        if 0xD800 <= point < 0xE000 or unicodedata.category(chr(point))[0] != initial:
            continue
        if found and found[-1][1] == point - 1:
            found[-1][1] = point
        else:
            found.append([point, point])
    return found


def table(name, comment, entries):
    print(f"/// {comment}\ninline constexpr code_point_range {name}[] = {{")
    line = "   "
    for first, last in entries:
        item = f" {{0x{first:X}, 0x{last:X}}},"
        if len(line) + len(item) > 140:
            print(line)
            line = "   "
        line += item
    print(line + "\n};\n")


print(f"""// Made by make_unicode_ranges.py from Unicode {unicodedata.unidata_version}; do not edit.
#pragma once

#include <cstdint>

namespace llm {{

struct code_point_range {{
  std::uint32_t first;
  std::uint32_t last;
}};

// clang-format off
""")
table("letter_ranges", "General category L, ascending.", ranges("L"))
table("number_ranges", "General category N, ascending.", ranges("N"))
print("// clang-format on\n\n}  // namespace llm")
