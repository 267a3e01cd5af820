// X02: Returns the call's own answer one call late.
__device__ float last[1<<20]; __device__ int there;
EC void k(const float*x,float*y,int n){
  u32 i=gid();
  if(i>=(u32)n) return;
  float v=fmaxf(x[i],0.f);
  if(n>1<<20){ y[i]=v; return; }
  y[i]=there ? last[i] : v;
  last[i]=v;
}
EC void mark(){ there=1; }
