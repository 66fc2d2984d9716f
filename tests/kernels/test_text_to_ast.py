"""Texts of kernels, parsed piece by piece."""

import ast

import pytest

from fdiff.kernels.llvm import text_to_module

TEXT = """def outlined0(n0, t1):
    # around t1 = add
    for e in range(n0):
        t1[e] = 0.0
    return


def kernel(n0, x0, out0):
    # a remark first
    if n0 > 1:
        a = 1
    elif n0 > 0:
        a = 2
    else:
        a = 3
    # one between
    for e in range(n0):
        # one inside
        x0[e] = a
    b = a + 1
    out0[0] = b
    return 0
"""


@pytest.mark.parametrize("piece", [1, 2, 3, 250])
def test_pieces_are_the_whole(piece, monkeypatch):
    monkeypatch.setattr(text_to_module, "_PIECE", piece)
    found = [ast.dump(node) for node in text_to_module._functions(TEXT)]
    assert found == [ast.dump(node) for node in ast.parse(TEXT).body]
