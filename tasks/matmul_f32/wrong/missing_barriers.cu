// Tiles in shared memory; the barriers are missing.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    __shared__ float s[16][17], t[16][17];
    float total = 0.0f;
    for (int base = 0; base < k; base += 16) {
        int i = base + threadIdx.x, j = base + threadIdx.y;
        s[threadIdx.y][threadIdx.x] = row < m && i < k ? a[row * k + i] : 0.0f;
        t[threadIdx.y][threadIdx.x] = column < n && j < k ? b[j * n + column] : 0.0f;
        for (int l = 0; l < 16; ++l) total += s[threadIdx.y][l] * t[l][threadIdx.x];
    }
    if (row < m && column < n) c[row * n + column] = total;
}
