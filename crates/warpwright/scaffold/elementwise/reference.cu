// The right answer in fp64, one thread per element: slow, plain, obviously correct.
#include "reference.cuh"

#ifndef WW_MUTANT
#define WW_MUTANT 0
#endif

extern "C" __global__ void elementwise_reference(const float* x, double* y_ref, double* y_bound,
                                                 long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double v = ww_load(x, i);

    // REPLACE: the formula.
    double y = v / (1.0 + fabs(v));

    // REPLACE: the mutants of task.toml.
    if (WW_MUTANT == 1) y = v / (1.0 + v);
    if (WW_MUTANT == 2) y = v / (1.0 + v * v);

    y_ref[i] = y;

    // REPLACE: how far a good fp32 kernel may be off, in units of its rounding (2^-24): some for each
    // operation, times the size of what it rounds. Where terms cancel, that is the size of the terms,
    // not of the result; exp(v) multiplies the error of v by |v|.
    y_bound[i] = 8.0 * fabs(y);
}
