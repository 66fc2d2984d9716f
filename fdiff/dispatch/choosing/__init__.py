"""Loops that branch, as nodes that choose the branches themselves.

`capture/sources/loop_rewriting.py` makes a function of the body of a loop, where the body has no
effect but on variables and what they hold. Here that function is run once for each *path* that
Python may go through it, on traced values; what Python asks of these is answered so that Python
goes there. The paths become one body (`transforms/loops/branch_tree.py`), in which the values asked
for choose the branch.

Such a node holds whatever branches are taken. What is less simple is refused, and Python runs the
loop.
"""
