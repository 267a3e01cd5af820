// One thread per element.
#include "reference.cuh"

#ifndef WW_MUTANT
#define WW_MUTANT 0
#endif

extern "C" __global__ void reference(const int* id, const float* table, double* y_ref, long long tokens,
                                     long long width) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= tokens * width) return;
    long long token = WW_MUTANT == 1 ? tokens - 1 - i / width : i / width;
    y_ref[i] = ww_load(table, id[token] * width + i % width);
}
