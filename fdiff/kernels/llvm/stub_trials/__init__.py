"""Trial calls of the entry stub, which together take each of its ways.

Each is rehearsed with the text before the machine code is run (`rehearsal`), so that a mistake is
found without a crash. `trial` alone is needed where an installation has done that once.
"""
