// Adds in half precision.
// REPLACE the formula, as in the other kernels of this folder: right but for one slip.
#include <cuda_fp16.h>
extern "C" __global__ void layer(const float* x, const float* w, const float* bias, float* y, int m,
                                 int n, int k) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    __half total = __float2half(bias[column]);
    for (int l = 0; l < k; ++l) total = __hadd(total, __float2half(x[row * k + l] * w[column * k + l]));
    y[row * n + column] = __half2float(total);
}
