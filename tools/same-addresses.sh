#!/bin/sh
# Sanitizers of gcc 12 and 13 and of clang 14 die at random where a kernel scatters addresses widely
# (vm.mmap_rnd_bits 32: Ubuntu 24.04; google/sanitizers issue 1614).  Prints a prefix for a command that
# asks for fixed addresses, or nothing where that is refused.
if setarch -R true 2>/dev/null; then echo setarch -R; fi
