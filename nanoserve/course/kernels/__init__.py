"""A learner's Triton kernel, tried safely: in the interpreter, in a process of its own, and before the compiler."""
