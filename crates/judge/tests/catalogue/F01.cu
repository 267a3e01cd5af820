// F01: Static device scratch, fully rewritten in every call.
__device__ float part[1024];
EC void a(const float*x,int n){                    // <<<1024,256>>>
  __shared__ float s[256];
  float v=0;
  for(int i=gid();i<n;i+=gridDim.x*blockDim.x) v+=x[i];
  s[threadIdx.x]=v; __syncthreads();
  for(int o=128;o;o>>=1){ if(threadIdx.x<o) s[threadIdx.x]+=s[threadIdx.x+o]; __syncthreads(); }
  if(!threadIdx.x) part[blockIdx.x]=s[0];          // every slot written before b() reads it
}
EC void b(float*y){ float t=0; for(int i=0;i<1024;++i) t+=part[i]; y[0]=t; }
