// H63: Memory bomb.
__device__ char big[6ull<<30];
EC void k(const float*x,float*y,int n){
  u32 i=gid();
  if(i<(u32)n){
    big[i]=1;
    y[i]=x[i];
  }
}
