// One thread per element in fp64. The left tail uses erfc, where 1 + erf would cancel.
#include "reference.cuh"

#ifndef WW_MUTANT
#define WW_MUTANT 0
#endif

extern "C" __global__ void gelu_reference(const float* x, double* y_ref, double* y_bound,
                                          long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double v = ww_load(x, i);
    double y = 0.5 * v * erfc(-v * 0.70710678118654752440);
    if (WW_MUTANT == 1) y = 0.5 * v * (1.0 + tanh(0.79788456080286536 * (v + 0.044715 * v * v * v)));
    if (WW_MUTANT == 2) y = v / (1.0 + exp(-1.702 * v));
    y_ref[i] = y;
    // The textbook formula cancels in the left tail, so its error scales with |x| as well.
    y_bound[i] = 16.0 * (fabs(y) + fabs(v));
}
