// G04: Atomics whose integer result no order changes.
EC void k(const int*expert,const float*x,float*y,int*count,int T){
  u32 t=gid();
  if(t>=(u32)T) return;
  atomicAdd(&count[expert[t]],1);
  atomicAdd(&y[expert[t]],x[t]);
}
