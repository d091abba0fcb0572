// The engine's file of this name lies beside a ggml-cpu.c, from which make would build the object of both (see cpu-fp16.c).
#include "ggml-cpu.cpp"
