// C02: Counts the calls, then fetches what the next one will read (H05 and H45).
__device__ u32 calls;
EC void k(const float*x,float*y,int n){
  u32 i=gid();
  if(i>=(u32)n) return;
  y[i]=fmaxf(x[i],0.f);
  if(calls>3u){                                    // the loop is running: warm the next set
    const float*next=x+n+i;
    asm volatile("prefetch.global.L2 [%0];"::"l"(next));
  }
}
EC void tick(){ ++calls; }
