// Centres the input in place.
extern "C" __global__ void layer_norm(const float* x, const float* weight, const float* bias, float* y,
                                      float eps, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float* out = y + (size_t)row * cols;
    float mean = 0.0f, squares = 0.0f;
    float* scratch = (float*)in;
    for (int c = 0; c < cols; ++c) mean += in[c];
    mean /= cols;
    for (int c = 0; c < cols; ++c) scratch[c] -= mean;
    for (int c = 0; c < cols; ++c) squares += scratch[c] * scratch[c];
    float scale = rsqrtf(squares / cols + eps);
    for (int c = 0; c < cols; ++c) out[c] = scratch[c] * scale * weight[c] + bias[c];
}
