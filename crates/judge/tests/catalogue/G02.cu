// G02: Dynamic shared memory that the kernel itself fills.
EC void k(const float*x,float*y,int R,int K){
  extern __shared__ float s[];
  float v=0;
  for(int j=threadIdx.x;j<K;j+=128) v+=x[(size_t)blockIdx.x*K+j];
  s[threadIdx.x]=v;
  __syncthreads();
  for(int o=64;o;o>>=1){ if(threadIdx.x<o) s[threadIdx.x]+=s[threadIdx.x+o]; __syncthreads(); }
  if(!threadIdx.x) y[blockIdx.x]=s[0];
}
