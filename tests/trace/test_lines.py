"""The user's line of a node is the one that Python names, however it is looked up."""

import subprocess
import sys

import numpy as np
from tapes import tape_of

from fdiff.user_lines import numbered, user_line

BLOCK = """
    pairs.append((numbered(user_line()), here().f_lineno))
    pairs += [
        (numbered(user_line()), here().f_lineno)
        for k in range(2)
        if k or
        pairs
    ]
    with open(__file__) as file: pairs.append((numbered(user_line()), here().f_lineno))
    try:
        raise ValueError(
            pairs.append((numbered(user_line()), here().f_lineno)),
            pairs.append((numbered(user_line()), here().f_lineno)))
    except ValueError:
        pairs.append((numbered(user_line()), here().f_lineno))
"""


def lines_of(blocks, file):
    """Lines found, and Python's own, in a function of many lines."""
    text = f"def f(pairs):\n{BLOCK * blocks}\n    return pairs\n"
    names = {"numbered": numbered, "user_line": user_line, "here": sys._getframe}
    names["__file__"] = __file__
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


def test_a_node_entered_often_keeps_each_line_once():
    """Whether its lines are few or many, and however many times it is entered on one line."""
    for count in (2, 30):
        text = "def f(x):\n" + "    np.sin(x); np.sin(x)\n" * count + "    return np.sin(x)\n"
        names = {"np": np}
        exec(compile(text, "of the user", "exec"), names)
        lines = tape_of(names["f"], np.ones(3)).rows()[1][3].split("; ")
        assert [line.split(":")[1] for line in lines] == [str(k + 2) for k in range(count + 1)]


def test_code_without_lines_is_named_by_its_first():
    def f():
        return user_line()

    bare = f.__code__.replace(co_linetable=b"", co_filename="of the user")
    assert numbered(type(f)(bare, globals())()) == ("of the user", bare.co_firstlineno)


def test_packages_anywhere_on_the_path_are_no_lines_of_the_user(tmp_path):
    """`pip install --user` and environments that see another one's packages."""
    code = """if True:
        import site, sys
        sys.path.insert(0, sys.argv[1])
        from fdiff.user_lines import is_internal
        for folder in (sys.argv[1], site.getusersitepackages(), *site.getsitepackages()):
            assert is_internal(folder + "/scipy/optimize/_minpack_py.py"), folder
        assert not is_internal("/elsewhere/model.py")
    """
    folder = str(tmp_path / "site-packages")
    subprocess.run([sys.executable, "-c", code, folder], check=True)
