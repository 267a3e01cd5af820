// G03: Fewer threads than elements, each with a stride.
EC void k(const float*x,float*y,int n){
  for(u32 i=gid();i<(u32)n;i+=gridDim.x*blockDim.x) y[i]=fmaxf(x[i],0.f);
}
