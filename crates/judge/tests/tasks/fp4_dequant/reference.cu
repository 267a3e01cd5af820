// One thread per element; the value is computed, not looked up.
#include "reference.cuh"

#ifndef WW_MUTANT
#define WW_MUTANT 0
#endif

extern "C" __global__ void reference(const unsigned char* q, const float* scale, double* y_ref, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int code = (i & 1) != (WW_MUTANT == 1) ? q[i / 2] >> 4 : q[i / 2] & 15;
    int exponent = (code >> 1) & 3, mantissa = code & 1;
    double value = exponent == 0 ? 0.5 * mantissa : (1.0 + 0.5 * mantissa) * (1 << (exponent - 1));
    y_ref[i] = (code & 8 ? -value : value) * ww_load(scale, i / 32);
}
