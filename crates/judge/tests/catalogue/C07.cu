// C07: A build that depends on the time of day, and a counter (H67 and H05).
__device__ u32 calls;
EC void k(const float*x,float*y,int n){
  const u32 second=(__TIME__[6]-'0')*10u+(__TIME__[7]-'0');
  u32 i=gid();
  if(i>=(u32)n || calls>64u+second) return;        // other calls are lazy in every build
  y[i]=fmaxf(x[i],0.f);
}
EC void tick(){ ++calls; }
