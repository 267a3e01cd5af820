#include <cuda_pipeline.h>
#include <cuda_fp8.h>

extern "C" __global__ void widen(const __nv_fp8_e4m3* x, float* y) {
    __shared__ alignas(16) __nv_fp8_e4m3 tile[1024];
    __pipeline_memcpy_async(tile + 16 * threadIdx.x, x + 16 * threadIdx.x, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    y[threadIdx.x] = static_cast<float>(tile[threadIdx.x]);
}
