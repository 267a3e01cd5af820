// The right answer in fp64, one thread per element: slow, plain, obviously correct.
#include "reference.cuh"

#ifndef WW_MUTANT
#define WW_MUTANT 0
#endif

extern "C" __global__ void gemm_reference(const float* x, const float* w, const float* bias,
                                          double* y_ref, double* y_bound, long long m, long long n,
                                          long long k) {
    long long column = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    long long row = blockIdx.y;
    if (column >= n) return;

    // REPLACE: the formula; ww_sum adds exact products with twice the precision of a double.
    ww_sum total;
    double magnitude = 0.0;
    for (long long l = 0; l < k - (WW_MUTANT == 1 && k > 1); ++l) {
        double p = ww_load(x, row * k + l), q = ww_load(w, column * k + l);
        total.add_product(p, q);
        magnitude += fabs(p * q);
    }
    double b = WW_MUTANT == 2 ? 0.0 : ww_load(bias, column);
    total.add(b);
    y_ref[row * n + column] = total.value();

    // REPLACE: how far a good fp32 kernel may be off, in units of its rounding (2^-24): a sum of k terms
    // in any order errs by about sqrt(k) of their size, whatever cancels in the total.
    y_bound[row * n + column] = 4.0 * sqrt((double)k) * (magnitude + fabs(b));
}
