// The engine's file of this name lies beside a ggml-cpu.c, from which make would build the object of both (see
// cpu-backend.c).
#include "ggml-cpu.cpp"
