// One thread per row; of equal values the first one counts.
#include "reference.cuh"

#ifndef WW_MUTANT
#define WW_MUTANT 0
#endif

extern "C" __global__ void reference(const float* x, double* y_ref, long long* index_ref,
                                     long long rows, long long cols) {
    long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    long long best = 0;
    for (long long c = 1; c < cols - (WW_MUTANT == 2 && cols > 1); ++c) {
        double v = ww_load(x, row * cols + c), largest = ww_load(x, row * cols + best);
        best = v > largest || (WW_MUTANT == 1 && v == largest) ? c : best;
    }
    y_ref[row] = ww_load(x, row * cols + best);
    index_ref[row] = best;
}
