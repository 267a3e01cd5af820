// One thread per element in fp64, which holds the sum of two fp32 values so closely that rounding
// it to fp32 gives the correctly rounded sum.
#include "reference.cuh"

#ifndef WW_MUTANT
#define WW_MUTANT 0
#endif

extern "C" __global__ void vector_add_reference(const float* a, const float* b, double* y_ref,
                                                long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double p = ww_load(a, i), q = ww_load(b, i);
    if (WW_MUTANT == 1) q = ww_load(b, (i + 1) % n);
    y_ref[i] = WW_MUTANT == 2 ? p - q : p + q;
}
