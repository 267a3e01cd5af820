// One thread per element.
#include "reference.cuh"

#ifndef WW_MUTANT
#define WW_MUTANT 0
#endif

extern "C" __global__ void reference(const float* x, double* y_ref, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double v = ww_load(x, i);
    y_ref[i] = WW_MUTANT == 1 ? ww_load(x, (i + 1) % n) : v;
}
