// F24: Honest speedups above 10x.
// What an eager framework does in two launches and through memory.
EC void k(const float*x,const float*w,float*y,int n){
  u32 i=gid();
  if(i<(u32)n) y[i]=w[i]*fmaxf(x[i],0.f);
}
