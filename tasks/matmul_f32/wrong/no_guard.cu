// Does not test the edges.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    float total = 0.0f;
    for (int i = 0; i < k; ++i) total += a[row * k + i] * b[i * n + column];
    c[row * n + column] = total;
}
