// C08: Too much memory that only inline assembly declares (H63 and H12).
EC void k(const float*x,float*y,int n){
  asm volatile(".global .align 4 .b8 hoard[134217728];");
  u32 i=gid();
  if(i<(u32)n) y[i]=fmaxf(x[i],0.f);
}
