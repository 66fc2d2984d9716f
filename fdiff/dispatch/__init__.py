"""From a call of `value_and_grad(f)` to its result.

In the order of a first call: `arguments` flattens the arguments and makes the signature by which
traces are told apart; `program` looks for a variant, a trace of `f` that holds for it, or has
`variant` trace `f`, while `capture_session` records what `f` reads from outside; the operator makes
a plan of it (`plans`); `tiered_execution` runs the plan's tapes by the NumPy interpreter, by
bytecode (`bytecode_tier`) or by compiled kernels (`kernel_tier`), whichever has paid for itself
(`break_even`).

A call is answered in one of two ways:

- The general way, in Python (`fdiff.functional.call.stages.result_of_call`), takes any arguments.
- A fast path (`fast_path`) is one builtin from arguments to result, for calls like a call that went
  the general way. `fast_path_builder` derives it from that call, so that no operator is described
  twice: the plan is recorded (`recorded_plans`, for calls from `njit` code and C as well), which
  shows how the stub of machine code takes arguments apart (`argument_registers`, the counterpart of
  `tree.flatten`) and builds the result (`result_template`, the counterpart of `tree.unflatten`).
  The stub itself compares classes, dtypes, shapes and strides with the ones of that call
  (`kernels/llvm/stub/entry_stub.py`). `native_revalidation` hands the stub the comparisons that
  `capture.revalidation` makes on the general way.

On the general way a function whose branches do not recur (`branch_stability`) is differentiated
eagerly: the plan has an `EagerStep`, which computes in the trace itself, in place of a `PlanStep`.
"""
