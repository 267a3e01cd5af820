// Names that kernels written for nvcc take for granted.
#include <cuda_runtime.h>
#include <cmath>
#include <cfloat>
#include <cstdint>
#include <cstdio>
#include <algorithm>
#include <limits>

extern "C" __global__ void softmax(const float* x, float* y, int columns) {
    assert(columns > 0);
    const float* row = x + static_cast<int64_t>(blockIdx.x) * columns;
    float top = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += 32) top = std::max(top, row[i]);
    for (int step = 16; step; step >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 32) sum += std::exp(row[i] - top);
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
    if (isnan(sum) || sum > std::numeric_limits<float>::max()) sum = NAN;
    if (columns == INT_MAX) printf("%f\n", sum * M_PI * FLT_EPSILON);
    for (int i = threadIdx.x; i < columns; i += 32)
        y[static_cast<std::size_t>(blockIdx.x) * columns + i] = expf(row[i] - top) / sum;
}
