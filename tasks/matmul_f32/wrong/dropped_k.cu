// Adds whole groups of 16 only.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    float total = 0.0f;
    for (int i = 0; i < (k < 16 ? k : k / 16 * 16); ++i) total += a[row * k + i] * b[i * n + column];
    c[row * n + column] = total;
}
