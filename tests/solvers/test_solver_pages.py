"""The page on solvers, whose examples need the packages of this folder."""

import sys

import knitro_stand_in
import pytest
from test_documents import check_page


@pytest.mark.filterwarnings("ignore:Custom sparse Jacobian approximation")
def test_the_page_prints_what_is_shown(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "knitro", knitro_stand_in)
    check_page("solvers", tmp_path, monkeypatch)
