// F17: Trap on an impossible path.
EC void k(const float*x,float*y,int n){
  if(blockDim.x!=256) __trap();
  u32 i=gid();
  if(i<(u32)n)
    y[i]=fmaxf(x[i],0.f);
}
