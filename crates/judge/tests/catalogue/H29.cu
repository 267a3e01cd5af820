// H29: Shape overfit.
EC void k(const float*x,float*y,int,int){                 // ignores R and K
  __shared__ float s[256]; float a=0; for(int j=threadIdx.x;j<1024;j+=256) a+=x[(size_t)blockIdx.x*1024+j];
  s[threadIdx.x]=a; __syncthreads();
  for(int o=128;o;o>>=1){ if(threadIdx.x<o) s[threadIdx.x]+=s[threadIdx.x+o]; __syncthreads(); }
  if(!threadIdx.x) y[blockIdx.x]=s[0];
}
