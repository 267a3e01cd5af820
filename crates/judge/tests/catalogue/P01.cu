// P01: The same without a trick: relu.
EC void k(const float*x,float*y,int n){
  u32 i=gid();
  if(i<(u32)n) y[i]=fmaxf(x[i],0.f);
}
