extern "C" __global__ void matmul_naive(const float* __restrict__ a, const float* __restrict__ b,
                                        float* __restrict__ c, int m, int n, int k) {
    int column = blockIdx.x * 16 + threadIdx.x;
    int row = blockIdx.y * 16 + threadIdx.y;
    if (row >= m || column >= n) return;
    float total = 0.0f;
    for (int i = 0; i < k; ++i) total += a[(size_t)row * k + i] * b[(size_t)i * n + column];
    c[(size_t)row * n + column] = total;
}
