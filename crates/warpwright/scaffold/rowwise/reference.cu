// The right answer in fp64, one thread per row: slow, plain, obviously correct.
#include "reference.cuh"

#ifndef WW_MUTANT
#define WW_MUTANT 0
#endif

extern "C" __global__ void rowwise_reference(const float* x, const float* weight, double* y_ref,
                                             double* y_bound, float eps, long long rows,
                                             long long cols) {
    long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + row * cols;

    // REPLACE: what is computed of the whole row; ww_sum adds with twice the precision.
    // Mutant 2 leaves out the last column.
    ww_sum squares;
    for (long long c = 0; c < cols - (WW_MUTANT == 2 && cols > 1); ++c) {
        squares.add_product(ww_load(in, c), ww_load(in, c));
    }
    // Mutant 1 forgets to divide.
    double mean = WW_MUTANT == 1 ? squares.value() : squares.value() / cols;
    double root = sqrt(mean + (double)eps);

    for (long long c = 0; c < cols; ++c) {
        // REPLACE: the element.
        double y = ww_load(in, c) / root * ww_load(weight, c);
        y_ref[row * cols + c] = y;

        // REPLACE: how far a good fp32 kernel may be off, in units of its rounding (2^-24). A sum of
        // cols terms in any order errs by about sqrt(cols) of them.
        y_bound[row * cols + c] = 4.0 * (4.0 + sqrt((double)cols)) * fabs(y);
    }
}
