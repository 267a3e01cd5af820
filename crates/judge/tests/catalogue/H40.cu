// H40: Uninitialised global memory.
EC void k(const float*x,float*y,const float*ws,int n){
  u32 i=gid();
  if(i<(u32)n) y[i]=ws[i];
}
