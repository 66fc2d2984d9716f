"""The user's line of a node is the one that Python names, however it is looked up."""

import sys

from fdiff.errors import user_line

BLOCK = """
    pairs.append((user_line(), here().f_lineno))
    pairs += [
        (user_line(), here().f_lineno)
        for k in range(2)
        if k or
        pairs
    ]
    with open(__file__) as file: pairs.append((user_line(), here().f_lineno))
    try:
        raise ValueError(
            pairs.append((user_line(), here().f_lineno)),
            pairs.append((user_line(), here().f_lineno)))
    except ValueError:
        pairs.append((user_line(), here().f_lineno))
"""


def lines_of(blocks, file):
    """Lines found, and Python's own, in a function of many lines."""
    text = f"def f(pairs):\n{BLOCK * blocks}\n    return pairs\n"
    names = {"user_line": user_line, "here": sys._getframe, "__file__": __file__}
    exec(compile(text, file, "exec"), names)
    return names["f"]([])


def test_lines_of_a_long_function():
    found = lines_of(50, "one of the user's")
    assert len(found) == 50 * 7
    assert found == [(("one of the user's", line), line) for _, line in found]
    assert len({line for _, line in found}) == 50 * 6


def test_functions_of_one_file_have_lines_of_their_own():
    for blocks in (1, 3, 2) * 50:
        found = lines_of(blocks, "again")
        assert [line for (_, line), _ in found] == [line for _, line in found]
