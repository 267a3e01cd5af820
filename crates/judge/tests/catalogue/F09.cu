// F09: Persistent kernel with an atomic tile queue.
EC void k(const float*x,float*y,u32*queue,int R,int K){        // grid = number of SMs, queue zeroed by the plan
  __shared__ u32 r;
  for(;;){
    if(!threadIdx.x) r=atomicAdd(queue,1u);
    __syncthreads();
    if(r>=(u32)R) return;
    if(threadIdx.x<32){
      float s=0; for(int j=threadIdx.x;j<K;j+=32) s+=x[(size_t)r*K+j];
      for(int o=16;o;o>>=1) s+=__shfl_down_sync(~0u,s,o);
      if(!threadIdx.x) y[r]=s;
    }
    __syncthreads();
  }
}
