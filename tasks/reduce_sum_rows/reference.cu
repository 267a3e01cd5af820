// One thread per row, a compensated sum in fp64.
#include "reference.cuh"

extern "C" __global__ void sum_reference(const float* x, double* y_ref, double* y_bound,
                                         long long rows, long long cols) {
    long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    ww_sum total;
    ww_sum magnitude;
    for (long long c = 0; c < cols; ++c) {
        double v = ww_load(x, row * cols + c);
        total.add(v);
        magnitude.add(fabs(v));
    }
    y_ref[row] = total.value();
    y_bound[row] = 4.0 * sqrt((double)cols) * magnitude.value();
}
