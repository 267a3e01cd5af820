// Does not test the edges.
// REPLACE the formula, as in the other kernels of this folder: right but for one slip.
extern "C" __global__ void layer(const float* x, const float* w, const float* bias, float* y, int m,
                                 int n, int k) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    float total = bias[column];
    for (int l = 0; l < k; ++l) total += x[row * k + l] * w[column * k + l];
    y[row * n + column] = total;
}
