// One thread per element of c, exact products summed with compensation in fp64.
#include "reference.cuh"

#ifndef WW_MUTANT
#define WW_MUTANT 0
#endif

extern "C" __global__ void reference(const __half* a, const __half* b, double* c_ref, double* c_bound,
                                     long long m, long long n, long long k) {
    long long column = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    long long row = blockIdx.y;
    if (column >= n) return;
    ww_sum total;
    double magnitude = 0.0;
    for (long long i = 0; i < k - (WW_MUTANT == 1 && k > 1); ++i) {
        double p = ww_load(a, row * k + i), q = ww_load(b, i * n + column);
        total.add_product(p, q);
        magnitude += fabs(p * q);
    }
    c_ref[row * n + column] = total.value();
    c_bound[row * n + column] = 4.0 * sqrt((double)k) * magnitude;
}
