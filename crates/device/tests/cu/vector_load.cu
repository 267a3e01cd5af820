// Wide loads, grid stride, no include at all.
extern "C" __global__ void scale(const float4* __restrict__ x, float4* __restrict__ y, float a, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 v = __ldg(x + i);
        y[i] = make_float4(a * v.x, a * v.y, a * v.z, a * v.w);
    }
}
