"""Plans of any module: PyTorch itself runs a step on fake tensors, without weights and without a GPU.

`device` stands in for the GPU, `engine` writes down what is asked of it, `tables` has what operators take inside of
their kernels, `loop` is what is run, `packed` the file that the planner reads (docs/trace.md).
"""
