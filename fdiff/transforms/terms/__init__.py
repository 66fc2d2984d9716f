"""The structure of Jacobians and Hessians: terms and cuts (docs/decisions/terms-and-cuts.md)."""
