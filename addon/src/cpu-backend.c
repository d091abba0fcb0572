// The engine's file of this name lies beside a ggml-cpu.cpp, and gyp would give both the same object file.
#include "ggml-cpu.c"
