// H11: Device-heap stash.
__device__ float*stash;
EC void k(const float*x,float*y,int n){
  if(gid()==0 && !stash) stash=(float*)malloc(1<<20);
  u32 i=gid(); if(i<(u32)n){ float v=fmaxf(x[i],0.f); y[i]=v; if(stash && i<262144u) stash[i]=v; }
}
