"""An emulator of the PTX that NVRTC makes of kernels, written from the PTX ISA and from nothing that the compiler has: what hardware leaves
undefined is an error."""
