// F28: Library-like code size, unrolled variants, many kernels.
template<int UNROLL,int PHASE> __global__ void part(const float*x,float*y,int n){
  u32 i=gid();
#pragma unroll UNROLL
  for(int j=0;j<8;++j) if(i<(u32)n && (i&3u)==PHASE && j==7) y[i]=fmaxf(x[i],0.f);
}
template<int N> __device__ float unused(float v){ return unused<N-1>(v)*v; }
template<> __device__ float unused<0>(float v){ return v; }
__device__ __noinline__ float never_called(float v){ return unused<32>(v); }
