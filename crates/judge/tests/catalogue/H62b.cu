// H62b: Trap before the verdict: in the third call.
__device__ u32 calls;
EC void k(const float*x,float*y,int n){
  if(gid()==0 && atomicAdd(&calls,1u)==2u) __trap();
  u32 i=gid();
  if(i<(u32)n) y[i]=x[i];
}
