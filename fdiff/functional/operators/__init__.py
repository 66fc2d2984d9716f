"""The public operators and their plans: `grad`, `jacobian`, `hessian`, `vmap`, `jit`."""
