// Truncates the operands to TF32.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    float total = 0.0f;
    for (int i = 0; i < k; ++i) {
        float p = __int_as_float(__float_as_int(a[row * k + i]) & 0xffffe000);
        float q = __int_as_float(__float_as_int(b[i * n + column]) & 0xffffe000);
        total += p * q;
    }
    c[row * n + column] = total;
}
