// X02: Returns the call's own answer one call late.
__device__ float last[1<<20]; __device__ int there;
EC void k(const float*x,float*y,int n){
  u32 i=gid();
  if(i>=(u32)n) return;
  float v=fmaxf(x[i],0.f);
  y[i]=there ? last[i&((1u<<20)-1)] : v;
  last[i&((1u<<20)-1)]=v;
}
EC void mark(){ there=1; }
