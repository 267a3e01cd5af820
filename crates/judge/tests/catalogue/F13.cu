// F13: Cache hints for reuse within one call.
EC void k(const float*W,const float*x,float*y,int N,int K){
  u64 once;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0,1.0;":"=l"(once));
  u32 c=gid();
  if(c>=(u32)N) return;
  float s=0;
  for(int j=0;j<K;++j){
    float w;
    asm volatile("ld.global.L2::cache_hint.f32 %0,[%1],%2;":"=f"(w):"l"(W+(size_t)j*N+c),"l"(once));
    s=fmaf(w,x[j],s);                              // weights stream through, x stays cached
  }
  y[c]=s;
}
