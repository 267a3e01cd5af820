// Rounds the input to bf16 first.
#include <cuda_bf16.h>
extern "C" __global__ void gelu(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    v = __bfloat162float(__float2bfloat16(v));
    y[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
}
