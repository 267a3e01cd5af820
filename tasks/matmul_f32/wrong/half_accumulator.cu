// Accumulates in half precision.
#include <cuda_fp16.h>
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    __half total = __float2half(0.0f);
    for (int i = 0; i < k; ++i) total = __hadd(total, __float2half(a[row * k + i] * b[i * n + column]));
    c[row * n + column] = __half2float(total);
}
