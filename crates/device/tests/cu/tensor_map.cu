#include <cuda.h>
#include <cuda/barrier>

extern "C" __global__ void load_tile(const __grid_constant__ CUtensorMap map, float* out) {
    __shared__ alignas(128) float tile[32 * 32];
    __shared__ alignas(8) unsigned long long bar;
    unsigned tile_at = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    unsigned bar_at = static_cast<unsigned>(__cvta_generic_to_shared(&bar));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar_at));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" ::"r"(bar_at));
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
            " [%0], [%1, {%2, %2}], [%3];" ::"r"(tile_at), "l"(&map), "r"(0), "r"(bar_at) : "memory");
    }
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}
