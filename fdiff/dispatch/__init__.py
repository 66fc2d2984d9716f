"""From a call of `value_and_grad(f)` to its result.

In the order of a first call: `arguments` flattens and checks what was given; `program` looks for a
variant, a trace of `f` that holds for it, or has `variant` trace `f`, while `capture_session`
writes down what `f` reads from outside; the operator makes a plan of it (`plans`);
`tiered_execution` runs the plan's tapes by the NumPy interpreter, by bytecode (`bytecode_tier`) or
by compiled kernels. Later calls take a fast path (`fast_path`, `fast_path_builder`): one builtin
from arguments to result.
"""
